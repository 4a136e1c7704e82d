-- Secrets of tenants, encrypted. The value opens only with the key named beside it.
CREATE TABLE secrets (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    -- Tools, hosts and place, as JSON.
    rule TEXT NOT NULL,
    key TEXT NOT NULL,
    sealed BLOB NOT NULL,
    set_at INTEGER NOT NULL,
    set_by BLOB NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID, STRICT;
