-- The device of each account whose words are here.
CREATE TABLE device (
    agent TEXT PRIMARY KEY,
    device TEXT NOT NULL
) STRICT;
INSERT INTO device (agent, device) SELECT user, device FROM owner WHERE device IS NOT NULL;
ALTER TABLE owner DROP COLUMN device;

-- The transactions of the homeserver that are taken in as a whole.
CREATE TABLE pushed (
    txn TEXT PRIMARY KEY,
    taken_at INTEGER NOT NULL
) STRICT;

-- Which agents are in which rooms, or invited: the homeserver pushes an event once, for all of them.
CREATE TABLE member (
    room TEXT NOT NULL,
    agent TEXT NOT NULL,
    PRIMARY KEY (room, agent)
) STRICT;

-- Rooms of which something was pushed that the agent's own sync is to bring, and has not brought yet; the newest of it.
CREATE TABLE bell (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    agent TEXT NOT NULL,
    room TEXT NOT NULL,
    event_id TEXT NOT NULL,
    UNIQUE (agent, room)
) STRICT;

-- Where the picture of each agent was uploaded to.
CREATE TABLE picture (
    agent TEXT PRIMARY KEY,
    digest TEXT NOT NULL,
    mxc TEXT NOT NULL
) STRICT;
