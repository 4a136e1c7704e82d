-- How much calls of a tenant, or of one key, may take in a period. What is NULL is not bounded.
CREATE TABLE budgets (
    tenant TEXT NOT NULL,
    -- Empty for all calls of the tenant.
    key BLOB NOT NULL,
    -- Hours of the period: 1 or 24.
    hours INTEGER NOT NULL,
    calls INTEGER,
    cpu_micros INTEGER,
    output_bytes INTEGER,
    PRIMARY KEY (tenant, key, hours)
) WITHOUT ROWID, STRICT;
