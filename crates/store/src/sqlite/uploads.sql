-- Uploaded skills. A row without content is of one that was removed.
CREATE TABLE uploads (
    digest BLOB NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    at INTEGER NOT NULL,
    -- Grows with every change of the row.
    revision INTEGER NOT NULL,
    content BLOB
) STRICT;

CREATE UNIQUE INDEX uploads_by_version ON uploads (name, version) WHERE content IS NOT NULL;
