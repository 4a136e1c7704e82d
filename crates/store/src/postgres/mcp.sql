-- MCP servers whose tools are offered; `server` is JSON.
CREATE TABLE mcp_servers (
    name text PRIMARY KEY,
    server text NOT NULL
);
