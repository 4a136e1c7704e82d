-- Data that tools keep between their calls: values by key, files by path.
CREATE TABLE tool_data (
    tenant TEXT NOT NULL,
    tool TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    changed_at INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (tenant, tool, kind, name)
) STRICT;

CREATE INDEX tool_data_by_tool ON tool_data (tool);
