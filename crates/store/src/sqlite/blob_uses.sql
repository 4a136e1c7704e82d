-- Owners of blobs: what refers to them by digest. Written in the commit of the owner, so that a blob without a
-- row here has no owner.
CREATE TABLE blob_uses (
    digest BLOB NOT NULL,
    -- Kind of the owner, for example `call`.
    kind TEXT NOT NULL,
    owner BLOB NOT NULL,
    PRIMARY KEY (digest, kind, owner)
) WITHOUT ROWID, STRICT;

CREATE INDEX blob_uses_by_owner ON blob_uses (kind, owner);

-- Seconds since 1970 when the last owner let go of the blob; NULL while it has one.
ALTER TABLE blobs ADD COLUMN unused_since INTEGER;

CREATE INDEX blobs_unused ON blobs (unused_since) WHERE unused_since IS NOT NULL;

-- Blobs that are older than this table are kept: their owners are not known.
INSERT INTO blob_uses (digest, kind, owner) SELECT digest, 'unknown', zeroblob(16) FROM blobs;
