-- One row for each start of a process that writes, and for each time that one lost its lease. The number is
-- the fencing token: it is never given twice.
CREATE TABLE processes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    started_at timestamptz NOT NULL DEFAULT now(),
    -- End of the lease, by the clock of the database.
    ends_at timestamptz NOT NULL,
    -- Never becomes false again.
    dead boolean NOT NULL DEFAULT false
);

CREATE INDEX processes_alive ON processes (ends_at) WHERE NOT dead;

-- Tasks that one process at a time does.
CREATE TABLE duties (
    name text PRIMARY KEY,
    holder bigint NOT NULL
);

-- One row per call, small and changed with each step. The texts are in the records.
CREATE TABLE calls (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id uuid NOT NULL UNIQUE,
    tenant text NOT NULL,
    tool text NOT NULL,
    session text,
    -- Call that made it.
    parent uuid,
    state text NOT NULL,
    -- True until the state is final.
    open boolean NOT NULL,
    -- Version of the newest record.
    version bigint NOT NULL,
    -- Version of the record that has what was asked: the first, or a later one that masks it.
    asked_in bigint NOT NULL,
    -- Process that the call is under way in; none if it is held or at its end.
    owner bigint
) WITH (fillfactor = 85);

CREATE INDEX calls_by_tenant ON calls (tenant, id);
CREATE INDEX calls_by_tool ON calls (tenant, tool, id);
CREATE INDEX calls_by_session ON calls (tenant, session, id) WHERE session IS NOT NULL;
CREATE INDEX calls_by_parent ON calls (tenant, parent, id) WHERE parent IS NOT NULL;
-- Small whatever the history: few calls are under way, few end otherwise than finished.
CREATE INDEX calls_open ON calls (tenant, id) WHERE open;
CREATE INDEX calls_unfinished ON calls (id) WHERE open;
CREATE INDEX calls_owned ON calls (owner) WHERE open AND owner IS NOT NULL;
CREATE INDEX calls_ended ON calls (tenant, state, id) WHERE NOT open AND state <> 'finished';

-- Keys are bytes: a client may send any character.
CREATE TABLE idempotency (
    key uuid NOT NULL,
    idempotency_key bytea NOT NULL,
    call uuid NOT NULL,
    at bigint NOT NULL,
    -- Derived keys last as long as the call they name.
    derived boolean NOT NULL,
    PRIMARY KEY (key, idempotency_key)
);

CREATE INDEX idempotency_by_time ON idempotency (at) WHERE NOT derived;

-- One row per commit of a call: all texts of the step, compressed together (see `packed.rs`). Positions are
-- given under the lock of the log, so they become visible in their order. Each row has one decision at most:
-- of several in one step, all but the last have rows of their own, of version 0.
CREATE TABLE records (
    position bigint PRIMARY KEY,
    -- `seq` of the call; none if the decision is about something else (see `actions`).
    call bigint,
    -- Version of the call after this step.
    version bigint NOT NULL,
    tenant text NOT NULL,
    -- Time of the decision; none if there is none.
    decided_at bigint,
    body bytea NOT NULL,
    -- Large texts, which readers of facts and entries need not read.
    large bytea
);

-- They are compressed already.
ALTER TABLE records ALTER body SET STORAGE EXTERNAL, ALTER large SET STORAGE EXTERNAL;
CREATE INDEX records_by_call ON records (call, version) WHERE call IS NOT NULL;
CREATE INDEX records_by_tenant ON records (tenant, position) WHERE call IS NOT NULL;
CREATE INDEX records_by_decision ON records (decided_at, position) WHERE decided_at IS NOT NULL;

-- Subjects of decisions that are not about a call.
CREATE TABLE actions (
    position bigint PRIMARY KEY,
    id uuid NOT NULL,
    tool text NOT NULL
);

CREATE INDEX actions_by_id ON actions (id);

CREATE TABLE cursors (
    name text PRIMARY KEY,
    position bigint NOT NULL
);

-- Bytes beyond a size are in the store for large blobs, under the digest, and here is NULL.
CREATE TABLE blobs (
    digest bytea PRIMARY KEY,
    size bigint NOT NULL,
    bytes bytea
);

-- A part of them is read without the rest.
ALTER TABLE blobs ALTER bytes SET STORAGE EXTERNAL;

CREATE TABLE keys (
    id uuid PRIMARY KEY,
    tenant text NOT NULL,
    persona text,
    -- Keys of one person count as one.
    person text,
    label text NOT NULL,
    prefix text NOT NULL,
    secret bytea NOT NULL UNIQUE,
    scopes text NOT NULL,
    created_at bigint NOT NULL,
    created_by uuid,
    expires_at bigint,
    revoked_at bigint
);

CREATE INDEX keys_by_tenant ON keys (tenant, created_at, id);

-- Beside the keys, so that noting a use never waits for a step that depends on a key.
CREATE TABLE key_uses (
    key uuid PRIMARY KEY,
    at bigint NOT NULL
);

CREATE TABLE session_events (
    position bigint PRIMARY KEY,
    tenant text NOT NULL,
    session text NOT NULL,
    at bigint NOT NULL,
    kind text NOT NULL,
    payload text NOT NULL
);

CREATE INDEX session_events_by_session ON session_events (tenant, session, position);

-- A row is never changed but for its revocation; its uses are beside it.
CREATE TABLE approvals (
    id uuid PRIMARY KEY,
    tenant text NOT NULL,
    tool text NOT NULL,
    expires_at bigint NOT NULL,
    uses bigint NOT NULL,
    revoked_at bigint,
    revoked_by uuid,
    -- From the text: the key whose calls it covers, its reach, and the keys that gave it.
    key uuid NOT NULL,
    reach text NOT NULL,
    once uuid,
    session text,
    voters uuid[] NOT NULL,
    approval text NOT NULL
);

CREATE INDEX approvals_by_tenant ON approvals (tenant, id);
CREATE INDEX approvals_of_tool ON approvals (tenant, tool, id);

-- One row for each call that ran by an approval, however often it was begun.
CREATE TABLE approval_uses (
    approval uuid NOT NULL,
    call uuid NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (approval, call)
);

-- Keys that sign the ledger, so that entries name theirs by a small number.
CREATE TABLE signers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key bytea NOT NULL UNIQUE
);

-- Every entry in its order: the index of an entry is its position less one. Positions are given under the
-- lock of the log, without a gap. There is no way to take one out.
CREATE TABLE ledger (
    position bigint PRIMARY KEY,
    kind text NOT NULL,
    -- Empty for entries about the whole server.
    tenant text NOT NULL,
    -- `seq` of the call.
    call bigint,
    persona text,
    tool text,
    at bigint NOT NULL,
    leaf bytea NOT NULL,
    -- Key in force.
    signer bigint NOT NULL,
    -- None for the end of a call: it is signed when a proof is asked for.
    signature bytea,
    -- Statement, as text; or the record that has it, and which of its entries it is.
    payload text,
    record bigint,
    part bigint
);

CREATE INDEX ledger_by_call ON ledger (call) WHERE call IS NOT NULL;
CREATE INDEX ledger_by_tenant ON ledger (tenant, position);
-- Small whatever the history: nearly all entries are of calls.
CREATE INDEX ledger_by_kind ON ledger (kind, tenant, position) WHERE kind <> 'call';

-- Full tiles only; what is not full yet is made from the leaves.
CREATE TABLE tiles (
    -- Level in the highest byte, index below.
    id bigint PRIMARY KEY,
    hashes bytea NOT NULL
);

CREATE TABLE checkpoints (
    size bigint PRIMARY KEY,
    note text NOT NULL
);

-- Calls whose results are remembered, by key. An index and nothing more: the result is read from the call.
CREATE TABLE memos (
    tenant text NOT NULL,
    key bytea NOT NULL,
    -- Grows by one with each of a tenant, so that the oldest are found without counting.
    number bigint NOT NULL,
    -- `seq` of the call.
    call bigint NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (tenant, key)
);

CREATE INDEX memos_by_age ON memos (tenant, number);

-- Findings about policies that are tried, by the names that operators give them.
CREATE TABLE canaries (
    name text PRIMARY KEY,
    since bigint NOT NULL,
    counts bigint[] NOT NULL
);

CREATE TABLE canary_differences (
    canary text NOT NULL,
    -- Grows by one with each, so that the oldest are found without counting.
    number bigint NOT NULL,
    difference text NOT NULL,
    PRIMARY KEY (canary, number)
);

-- Usage of ended calls, added up per hour (of UTC, counted from 1970), key and tool; in the commit of the step
-- that ends a call. Calls that are removed later stay counted.
CREATE TABLE usage (
    tenant text NOT NULL,
    hour bigint NOT NULL,
    key uuid NOT NULL,
    tool text NOT NULL,
    calls bigint NOT NULL,
    failures bigint NOT NULL,
    cpu_micros bigint NOT NULL,
    wall_micros bigint NOT NULL,
    output_bytes bigint NOT NULL,
    PRIMARY KEY (tenant, hour, key, tool)
) WITH (fillfactor = 70);

-- Budgets of a tenant, or of one key, in a period. NULL is not bounded.
CREATE TABLE budgets (
    tenant text NOT NULL,
    -- Empty for all calls of the tenant.
    key bytea NOT NULL,
    -- Hours of the period: 1 or 24.
    hours bigint NOT NULL,
    calls bigint,
    cpu_micros bigint,
    output_bytes bigint,
    PRIMARY KEY (tenant, key, hours)
);
