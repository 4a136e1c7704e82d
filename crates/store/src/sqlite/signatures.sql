-- A signature may come later than its entry, so its column may be empty now.
CREATE TABLE entries (
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
    signer BLOB NOT NULL,
    -- Of what was signed at once.
    signature BLOB,
    payload TEXT NOT NULL
) STRICT;

INSERT INTO entries SELECT * FROM ledger;
DROP TABLE ledger;
ALTER TABLE entries RENAME TO ledger;

CREATE INDEX ledger_by_call ON ledger (call) WHERE call IS NOT NULL;
CREATE INDEX ledger_by_tenant ON ledger (tenant, position, at);
CREATE INDEX ledger_by_kind ON ledger (kind, tenant) WHERE kind <> 'call';

-- Those that came later, in rows of many: 64 bytes for each entry from the index `first` on. They are
-- made in the order of the entries, so each row begins where the one before it ends.
CREATE TABLE signatures (
    first INTEGER PRIMARY KEY,
    signatures BLOB NOT NULL
) STRICT;
