-- Time at which the last owner let go of the blob; NULL while it has one.
ALTER TABLE blobs ADD COLUMN unused_since timestamptz;

CREATE INDEX blobs_unused ON blobs (unused_since) WHERE unused_since IS NOT NULL;

-- Owners of blobs: what refers to them by digest. Written in the commit of the owner. The foreign key keeps a
-- blob from being removed while another process commits a reference to it.
CREATE TABLE blob_uses (
    digest bytea NOT NULL REFERENCES blobs,
    -- Kind of the owner, for example `call`.
    kind text NOT NULL,
    owner uuid NOT NULL,
    PRIMARY KEY (digest, kind, owner)
);

CREATE INDEX blob_uses_by_owner ON blob_uses (kind, owner);

-- Blobs in the store for large ones, written before their bytes are put there. One that has no row in `blobs`
-- some time after it was last put has no owner and is removed.
CREATE TABLE large_blobs (
    digest bytea PRIMARY KEY,
    put_at timestamptz NOT NULL DEFAULT now()
);

-- Blobs that are older than these tables are kept: their owners are not known.
INSERT INTO blob_uses (digest, kind, owner)
    SELECT digest, 'unknown', '00000000-0000-0000-0000-000000000000' FROM blobs;
INSERT INTO large_blobs (digest) SELECT digest FROM blobs WHERE bytes IS NULL;
