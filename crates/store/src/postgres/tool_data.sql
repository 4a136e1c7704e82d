-- Data that tools keep between their calls: values by key, files by path.
CREATE TABLE tool_data (
    tenant text NOT NULL,
    tool text NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    changed_at bigint NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (tenant, tool, kind, name)
);

CREATE INDEX tool_data_by_tool ON tool_data (tool);
