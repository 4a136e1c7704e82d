-- State of tool versions. The definition of a version never changes.
CREATE TABLE tool_rows (
    digest bytea NOT NULL PRIMARY KEY,
    -- Grows with every change of any row; followers read what is after the one they know.
    revision bigint NOT NULL,
    name text NOT NULL,
    version text NOT NULL,
    status text NOT NULL,
    about text NOT NULL,
    definition text
);

CREATE UNIQUE INDEX tool_rows_by_revision ON tool_rows (revision);
