-- The keys that sign the ledger, so that entries name theirs by a small number.
CREATE TABLE signers (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE
) STRICT;

-- Every entry, in the order in which the one writer took them: the index of an entry is its
-- position less one. There is no way to take one out. What is searched for comes before the text,
-- so that a search does not read it.
CREATE TABLE ledger (
    position INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    -- Empty for what concerns the whole server.
    tenant TEXT NOT NULL,
    -- The `seq` of the call.
    call INTEGER,
    persona TEXT,
    tool TEXT,
    at INTEGER NOT NULL,
    leaf BLOB NOT NULL,
    -- The key in force.
    signer INTEGER NOT NULL,
    -- None for the end of a call: it is signed when a proof is asked for.
    signature BLOB,
    -- The statement, as text; or the record that has it, and which of its entries it is.
    payload TEXT,
    record INTEGER,
    part INTEGER
) STRICT;

CREATE INDEX ledger_by_call ON ledger (call) WHERE call IS NOT NULL;
-- With the time in it, so that what is outside a span of time is passed over without its row.
CREATE INDEX ledger_by_tenant ON ledger (tenant, position, at);
-- Small whatever the history: nearly all entries are of calls.
CREATE INDEX ledger_by_kind ON ledger (kind, tenant) WHERE kind <> 'call';

-- Full tiles only; what is not full yet is made from the leaves.
CREATE TABLE tiles (
    -- The level in the highest byte, the index below.
    id INTEGER PRIMARY KEY,
    hashes BLOB NOT NULL
) STRICT;

CREATE TABLE checkpoints (
    size INTEGER PRIMARY KEY,
    note TEXT NOT NULL
) STRICT;
