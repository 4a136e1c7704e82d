-- MCP servers whose tools are offered.
CREATE TABLE mcp_servers (
    name TEXT PRIMARY KEY,
    -- JSON.
    server TEXT NOT NULL
) WITHOUT ROWID, STRICT;
