-- Artifacts: files that calls take in and leave behind.
CREATE TABLE artifacts (
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,
    title TEXT NOT NULL,
    -- JSON: description, media type, tags, maker.
    about TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    -- Number of the newest version.
    newest INTEGER NOT NULL
) STRICT;

CREATE INDEX artifacts_by_tenant ON artifacts (tenant, id);

-- Versions never change, but for labels that are added. Their bytes are blobs that the artifact owns.
CREATE TABLE artifact_versions (
    artifact BLOB NOT NULL,
    version INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    digest BLOB NOT NULL,
    size INTEGER NOT NULL,
    at INTEGER NOT NULL,
    -- Call that made it.
    call BLOB,
    -- JSON: changes, author, confidence, labels.
    about TEXT NOT NULL,
    PRIMARY KEY (artifact, version)
) WITHOUT ROWID, STRICT;

CREATE INDEX artifact_versions_by_digest ON artifact_versions (tenant, digest);

CREATE TABLE artifact_verdicts (
    artifact BLOB NOT NULL,
    version INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    about TEXT NOT NULL,
    PRIMARY KEY (artifact, version, number)
) WITHOUT ROWID, STRICT;

-- Words by which artifacts are found: `tag:x`, `label:x`, `intent:x`, `call:x`.
CREATE TABLE artifact_marks (
    tenant TEXT NOT NULL,
    mark TEXT NOT NULL,
    artifact BLOB NOT NULL,
    PRIMARY KEY (tenant, mark, artifact)
) WITHOUT ROWID, STRICT;

CREATE INDEX artifact_marks_by_artifact ON artifact_marks (artifact);

CREATE TABLE artifact_totals (
    tenant TEXT PRIMARY KEY,
    artifacts INTEGER NOT NULL,
    versions INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

-- Edges of the lineage, from a node to one of its causes. A node is a letter and an id.
CREATE TABLE lineage (
    tenant TEXT NOT NULL,
    node BLOB NOT NULL,
    cause BLOB NOT NULL,
    relation INTEGER NOT NULL,
    PRIMARY KEY (tenant, node, cause, relation)
) WITHOUT ROWID, STRICT;

CREATE INDEX lineage_by_cause ON lineage (tenant, cause, node, relation);
