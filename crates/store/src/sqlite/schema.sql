-- What was asked never changes and may be large, so it is a row of its own: a step of a call
-- rewrites the small row only. Both have the same `seq`.
CREATE TABLE asked (
    seq INTEGER PRIMARY KEY,
    asked TEXT NOT NULL
) STRICT;

CREATE TABLE calls (
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    tenant TEXT NOT NULL,
    tool TEXT NOT NULL,
    session TEXT,
    state TEXT NOT NULL,
    -- 1 until the state is final.
    open INTEGER NOT NULL,
    version INTEGER NOT NULL,
    -- Decision, state and time of the last change.
    now TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX calls_by_id ON calls (id);
CREATE INDEX calls_by_tenant ON calls (tenant, id);
CREATE INDEX calls_by_tool ON calls (tenant, tool, id);
CREATE INDEX calls_by_session ON calls (tenant, session, id) WHERE session IS NOT NULL;
-- Both are small whatever the history: few calls are under way, few end otherwise than finished.
CREATE INDEX calls_open ON calls (tenant, id) WHERE open = 1;
CREATE INDEX calls_ended ON calls (tenant, state, id) WHERE open = 0 AND state <> 'finished';

-- `seq` is that of the call, so the oldest are the first and are easily forgotten.
CREATE TABLE idempotency (
    seq INTEGER PRIMARY KEY,
    key BLOB NOT NULL,
    idempotency_key TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX idempotency_by_key ON idempotency (key, idempotency_key);

-- The text that was receipted, not a digest of what would be derived today: a later version of
-- this program may derive another receipt from the same call.
CREATE TABLE receipts (
    seq INTEGER PRIMARY KEY,
    receipt TEXT NOT NULL
) STRICT;

-- One row per commit. There is one writer, so positions become visible in their order.
CREATE TABLE facts (
    position INTEGER PRIMARY KEY,
    call INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    facts TEXT NOT NULL
) STRICT;

CREATE INDEX facts_by_call ON facts (call);
CREATE INDEX facts_by_tenant ON facts (tenant);

CREATE TABLE cursors (
    name TEXT PRIMARY KEY,
    position INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

-- Bytes beyond a size are in a file of the digest's name, and here is NULL.
CREATE TABLE blobs (
    digest BLOB NOT NULL UNIQUE,
    size INTEGER NOT NULL,
    bytes BLOB
) STRICT;

CREATE TABLE keys (
    id BLOB PRIMARY KEY,
    tenant TEXT NOT NULL,
    persona TEXT,
    -- Whose hands it is in. Keys of one person count as one.
    person TEXT,
    label TEXT NOT NULL,
    prefix TEXT NOT NULL,
    secret BLOB NOT NULL UNIQUE,
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by BLOB,
    expires_at INTEGER,
    revoked_at INTEGER,
    last_used_at INTEGER
) WITHOUT ROWID, STRICT;

CREATE TABLE session_events (
    position INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    payload TEXT NOT NULL
) STRICT;

CREATE INDEX session_events_by_session ON session_events (tenant, session);
