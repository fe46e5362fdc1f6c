-- One row: whose store this is.
CREATE TABLE owner (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    user TEXT NOT NULL,
    device TEXT
) STRICT;

-- The sync position up to which the inbox has everything.
CREATE TABLE position (
    agent TEXT PRIMARY KEY,
    position TEXT NOT NULL
) STRICT;

-- Columns of type BLOB hold people's words, sealed with the store's key (seal.rs).

-- Everything received, once per agent. In order of arrival. The event is null when it was redacted.
CREATE TABLE inbox (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    agent TEXT NOT NULL,
    room TEXT NOT NULL,
    event_id TEXT NOT NULL,
    event BLOB,
    -- The message that it is an edit of.
    target TEXT,
    -- The session whose key it waits for.
    session TEXT,
    received_at INTEGER NOT NULL,
    handled_at INTEGER,
    UNIQUE (agent, event_id)
) STRICT;
CREATE INDEX inbox_waiting ON inbox (seq) WHERE handled_at IS NULL;
CREATE INDEX inbox_undecrypted ON inbox (session, seq) WHERE session IS NOT NULL;
CREATE INDEX inbox_room ON inbox (agent, room);
CREATE INDEX inbox_target ON inbox (agent, target) WHERE target IS NOT NULL;

-- What was said, as its newest text; null when it was redacted.
CREATE TABLE transcript (
    agent TEXT NOT NULL,
    room TEXT NOT NULL,
    handle INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    thread TEXT,
    sender TEXT NOT NULL,
    name BLOB NOT NULL,
    text BLOB,
    reply_to TEXT,
    sent_at INTEGER NOT NULL,
    PRIMARY KEY (agent, room, event_id),
    UNIQUE (agent, room, handle)
) STRICT;
CREATE INDEX transcript_thread ON transcript (agent, room, thread, handle);

-- Every payload with its transaction id, frozen before it is sent. What answers a message names it (origin) and says which
-- part of the answer it is, and whether it is that part's last content. The content is null when it was redacted.
CREATE TABLE outbox (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    txn TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    room TEXT NOT NULL,
    event_type TEXT NOT NULL,
    content BLOB,
    -- The message that it is an edit of.
    target TEXT,
    origin TEXT,
    part INTEGER NOT NULL,
    is_last INTEGER NOT NULL,
    queued_at INTEGER NOT NULL,
    settled_at INTEGER,
    event_id TEXT
) STRICT;
CREATE INDEX outbox_unsettled ON outbox (seq) WHERE settled_at IS NULL;
CREATE INDEX outbox_origin ON outbox (agent, origin) WHERE origin IS NOT NULL;

-- An answer as it is to stand in the room: written before its first part is sent, gone when all parts are there.
CREATE TABLE answer (
    agent TEXT NOT NULL,
    origin TEXT NOT NULL,
    answer BLOB NOT NULL,
    decided_at INTEGER NOT NULL,
    PRIMARY KEY (agent, origin)
) STRICT;

-- What people chose for a room by a command.
CREATE TABLE room_setting (
    agent TEXT NOT NULL,
    room TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (agent, room, name)
) STRICT;

-- What was found out about a model's endpoint.
CREATE TABLE model_form (
    url TEXT NOT NULL,
    model TEXT NOT NULL,
    form TEXT NOT NULL,
    PRIMARY KEY (url, model)
) STRICT;
