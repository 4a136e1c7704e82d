-- Uploaded skills. A row without content is of one that was removed.
CREATE TABLE uploads (
    digest bytea NOT NULL PRIMARY KEY,
    name text NOT NULL,
    version text NOT NULL,
    at bigint NOT NULL,
    -- Grows with every change of the row.
    revision bigint NOT NULL,
    content bytea
);

CREATE UNIQUE INDEX uploads_by_version ON uploads (name, version) WHERE content IS NOT NULL;
