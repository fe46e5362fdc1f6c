-- Questions that a person is asked, and what came of them. Written before the question is posted. The event is null until
-- it is; the verdict is null while it is open.
CREATE TABLE ask (
    agent TEXT NOT NULL,
    id TEXT NOT NULL,
    room TEXT NOT NULL,
    thread TEXT,
    person TEXT NOT NULL,
    -- The tool call that asks: found again by a turn that is begun anew.
    origin TEXT NOT NULL,
    call TEXT NOT NULL,
    question BLOB NOT NULL,
    event_id TEXT,
    asked_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    verdict BLOB,
    PRIMARY KEY (agent, id),
    UNIQUE (agent, origin, call)
) STRICT;
CREATE INDEX ask_open ON ask (agent, person) WHERE verdict IS NULL;

-- What a person's phone client has announced; one phone a person.
CREATE TABLE phone (
    agent TEXT NOT NULL,
    person TEXT NOT NULL,
    announcement BLOB NOT NULL,
    PRIMARY KEY (agent, person)
) STRICT;

-- Where a person has said that they write from the phone: by the device in an encrypted room, by the room elsewhere.
CREATE TABLE phone_here (
    agent TEXT NOT NULL,
    person TEXT NOT NULL,
    place TEXT NOT NULL,
    PRIMARY KEY (agent, person, place)
) STRICT;

-- Conversations in which a message was sent from a phone: the tool stays on offer there. The thread is '' for none.
CREATE TABLE phone_chat (
    agent TEXT NOT NULL,
    room TEXT NOT NULL,
    thread TEXT NOT NULL,
    PRIMARY KEY (agent, room, thread)
) STRICT;
