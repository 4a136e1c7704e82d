-- State of tool versions. The definition of a version never changes.
CREATE TABLE tool_rows (
    digest BLOB NOT NULL PRIMARY KEY,
    -- Grows with every change of any row; followers read what is after the one they know.
    revision INTEGER NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    status TEXT NOT NULL,
    about TEXT NOT NULL,
    definition TEXT
) STRICT;

CREATE UNIQUE INDEX tool_rows_by_revision ON tool_rows (revision);
