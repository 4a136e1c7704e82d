-- One row for each start of a process that writes. A call under way is owned by one of them; there is no
-- number that was given twice, so a process that is gone is never taken for one that lives.
CREATE TABLE processes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    started_at INTEGER NOT NULL DEFAULT (unixepoch())
) STRICT;

-- One row per call, small and changed with each step: what calls are found by. The texts are in the
-- records.
CREATE TABLE calls (
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    tenant TEXT NOT NULL,
    tool TEXT NOT NULL,
    session TEXT,
    -- The call that made it.
    parent BLOB,
    state TEXT NOT NULL,
    -- 1 until the state is final.
    open INTEGER NOT NULL,
    -- Of the newest record.
    version INTEGER NOT NULL,
    -- The version of the record that has what was asked: the first, or a later one that masks it.
    asked_in INTEGER NOT NULL,
    -- The process that the call is under way in; none if it is held or at its end.
    owner INTEGER
) STRICT;

CREATE UNIQUE INDEX calls_by_id ON calls (id);
CREATE INDEX calls_by_tenant ON calls (tenant, id);
CREATE INDEX calls_by_tool ON calls (tenant, tool, id);
CREATE INDEX calls_by_session ON calls (tenant, session, id) WHERE session IS NOT NULL;
CREATE INDEX calls_by_parent ON calls (tenant, parent, id) WHERE parent IS NOT NULL;
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

-- Idempotency keys that the server derives: they last as long as the call they name.
CREATE TABLE derived_keys (
    seq INTEGER PRIMARY KEY,
    key BLOB NOT NULL,
    idempotency_key TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX derived_keys_by_key ON derived_keys (key, idempotency_key);

-- One row per commit of a call: all that the step said, compressed together (see `packed.rs`). Written
-- once; only what policy has masked is taken out later. There is one writer, so positions become
-- visible in their order. Each row has one decision at most: of several in one step, all but the last
-- have rows of their own, of version 0.
CREATE TABLE records (
    position INTEGER PRIMARY KEY,
    -- The `seq` of the call; none if the decision is about something else (see `actions`).
    call INTEGER,
    -- Of the call after this step.
    version INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    -- When the decision was made; none if there is none.
    decided_at INTEGER,
    body BLOB NOT NULL,
    -- Large texts, which readers of facts and entries need not read.
    large BLOB
) STRICT;

CREATE INDEX records_by_call ON records (call, version) WHERE call IS NOT NULL;
CREATE INDEX records_by_tenant ON records (tenant) WHERE call IS NOT NULL;
CREATE INDEX records_by_decision ON records (decided_at) WHERE decided_at IS NOT NULL;

-- What a decision is about that is not about a call.
CREATE TABLE actions (
    position INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    tool TEXT NOT NULL
) STRICT;

CREATE INDEX actions_by_id ON actions (id);

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

CREATE INDEX keys_by_tenant ON keys (tenant, created_at, id);

CREATE TABLE session_events (
    position INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    payload TEXT NOT NULL
) STRICT;

CREATE INDEX session_events_by_session ON session_events (tenant, session);
