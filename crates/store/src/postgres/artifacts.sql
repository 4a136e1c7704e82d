-- Artifacts: files that calls take in and leave behind.
CREATE TABLE artifacts (
    id uuid PRIMARY KEY,
    tenant text NOT NULL,
    kind text NOT NULL,
    title text NOT NULL,
    -- JSON: description, media type, tags, maker.
    about text NOT NULL,
    created_at bigint NOT NULL,
    -- Number of the newest version.
    newest bigint NOT NULL
);

CREATE INDEX artifacts_by_tenant ON artifacts (tenant, id);

-- Versions never change, but for labels that are added. Their bytes are blobs that the artifact owns.
CREATE TABLE artifact_versions (
    artifact uuid NOT NULL,
    version bigint NOT NULL,
    tenant text NOT NULL,
    digest bytea NOT NULL,
    size bigint NOT NULL,
    at bigint NOT NULL,
    -- Call that made it.
    call uuid,
    -- JSON: changes, author, confidence, labels.
    about text NOT NULL,
    PRIMARY KEY (artifact, version)
);

CREATE INDEX artifact_versions_by_digest ON artifact_versions (tenant, digest);

CREATE TABLE artifact_verdicts (
    artifact uuid NOT NULL,
    version bigint NOT NULL,
    number bigint NOT NULL,
    at bigint NOT NULL,
    about text NOT NULL,
    PRIMARY KEY (artifact, version, number)
);

-- Words by which artifacts are found: `tag:x`, `label:x`, `intent:x`, `call:x`.
CREATE TABLE artifact_marks (
    tenant text NOT NULL,
    mark text NOT NULL,
    artifact uuid NOT NULL,
    PRIMARY KEY (tenant, mark, artifact)
);

CREATE INDEX artifact_marks_by_artifact ON artifact_marks (artifact);

CREATE TABLE artifact_totals (
    tenant text PRIMARY KEY,
    artifacts bigint NOT NULL,
    versions bigint NOT NULL,
    bytes bigint NOT NULL
);

-- Edges of the lineage, from a node to one of its causes. A node is a letter and an id.
CREATE TABLE lineage (
    tenant text NOT NULL,
    node bytea NOT NULL,
    cause bytea NOT NULL,
    relation bigint NOT NULL,
    PRIMARY KEY (tenant, node, cause, relation)
);

CREATE INDEX lineage_by_cause ON lineage (tenant, cause, node, relation);
