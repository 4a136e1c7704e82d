-- What ended calls took, added up per hour (of UTC, counted from 1970), key and tool; in the commit of the
-- step that ends a call. Calls that are removed later stay counted.
CREATE TABLE usage (
    tenant TEXT NOT NULL,
    hour INTEGER NOT NULL,
    key BLOB NOT NULL,
    tool TEXT NOT NULL,
    calls INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    cpu_micros INTEGER NOT NULL,
    wall_micros INTEGER NOT NULL,
    output_bytes INTEGER NOT NULL,
    PRIMARY KEY (tenant, hour, key, tool)
) WITHOUT ROWID, STRICT;
