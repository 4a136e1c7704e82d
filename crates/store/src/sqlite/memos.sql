-- Which call gave the result that is remembered under a key. An index and nothing more: the result is
-- read from the call, so whatever becomes of the call becomes of it.
CREATE TABLE memos (
    tenant TEXT NOT NULL,
    -- Grows by one with each, so that the oldest of a tenant are found without counting.
    number INTEGER NOT NULL,
    key BLOB NOT NULL,
    -- The `seq` of the call.
    call INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (tenant, number)
) WITHOUT ROWID, STRICT;

CREATE UNIQUE INDEX memos_by_key ON memos (tenant, key);
