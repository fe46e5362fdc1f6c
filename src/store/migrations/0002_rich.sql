-- What is sent for a tool call names it (call), so that the same call in a turn that is begun anew sends nothing twice; its
-- part is -1.
ALTER TABLE outbox ADD COLUMN call TEXT;

-- The blocks of the agent's own messages as they stand now, so that a press on a button is understood and edits are
-- counted.
CREATE TABLE rich (
    agent TEXT NOT NULL,
    room TEXT NOT NULL,
    event_id TEXT NOT NULL,
    thread TEXT,
    payload BLOB NOT NULL,
    edits INTEGER NOT NULL DEFAULT 0,
    sent_at INTEGER NOT NULL,
    PRIMARY KEY (agent, room, event_id)
) STRICT;

-- Turns that the agent has set itself for later; gone when the turn has ended.
CREATE TABLE later (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    agent TEXT NOT NULL,
    room TEXT NOT NULL,
    thread TEXT,
    -- For whom it works then.
    person TEXT NOT NULL,
    note BLOB NOT NULL,
    due_at INTEGER NOT NULL,
    -- The tool call that has set it: the same call of a turn that is begun anew sets nothing twice.
    origin TEXT NOT NULL,
    call TEXT NOT NULL,
    UNIQUE (agent, origin, call)
) STRICT;
CREATE INDEX later_due ON later (agent, due_at);
