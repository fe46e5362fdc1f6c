-- What a question is: a card for a phone, a one-time form, or a room's list of commands that waits for its confirmation.
ALTER TABLE ask ADD COLUMN kind TEXT NOT NULL DEFAULT 'card';

-- Secrets that people have given through forms, by name, of a person or of a room. The value is sealed with all of its
-- place: moved to another row it opens no more.
CREATE TABLE secret (
    agent TEXT NOT NULL,
    -- 'person' or 'room', and whose: a user id or a room id.
    kind TEXT NOT NULL,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    set_by TEXT NOT NULL,
    set_at INTEGER NOT NULL,
    PRIMARY KEY (agent, kind, owner, name)
) STRICT;

-- What a form has besides its ask: the digest of what the one browser keeps that has opened it, and whether its end was told.
CREATE TABLE form (
    agent TEXT NOT NULL,
    id TEXT NOT NULL,
    browser TEXT,
    told INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (agent, id)
) STRICT;
CREATE INDEX form_id ON form (id);

-- The list of commands in a room's state that the room was told of last, by its hash, and who has confirmed it.
CREATE TABLE command_list (
    agent TEXT NOT NULL,
    room TEXT NOT NULL,
    hash TEXT NOT NULL,
    confirmed_by TEXT,
    PRIMARY KEY (agent, room)
) STRICT;

-- How far a command has come, so that one that is begun anew goes on behind what was done.
CREATE TABLE command_run (
    agent TEXT NOT NULL,
    origin TEXT NOT NULL,
    call TEXT NOT NULL,
    progress BLOB NOT NULL,
    begun_at INTEGER NOT NULL,
    PRIMARY KEY (agent, origin, call)
) STRICT;
