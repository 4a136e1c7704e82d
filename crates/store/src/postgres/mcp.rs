//! MCP servers whose tools are offered.

use ringfence_types::{McpServer, ServerName};
use serde::de::DeserializeOwned;
use tokio_postgres::Row;

use super::pool::Pool;
use crate::{Error, PAGE, encoding::page};

/// Adds a server; `false` if there is one of its name.
pub(super) async fn add(pool: &Pool, server: McpServer) -> Result<bool, Error> {
    let text = json(&server)?;
    let link = &*pool.read().await?;
    let sql = "INSERT INTO mcp_servers (name, server) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    Ok(link.execute(sql, &[&server.name.as_str(), &text]).await? > 0)
}

/// Removes a server; `false` if there was none.
pub(super) async fn remove(pool: &Pool, name: &ServerName) -> Result<bool, Error> {
    let link = &*pool.read().await?;
    let sql = "DELETE FROM mcp_servers WHERE name = $1";
    Ok(link.execute(sql, &[&name.as_str()]).await? > 0)
}

/// Servers by name.
pub(super) async fn list(pool: &Pool) -> Result<Vec<McpServer>, Error> {
    let link = &*pool.read().await?;
    let sql = "SELECT server FROM mcp_servers ORDER BY name COLLATE \"C\" LIMIT $1";
    let found = link.query(sql, &[&page(PAGE)]).await?;
    found.iter().map(parsed).collect()
}

fn json<T: serde::Serialize>(value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(Error::backend("write an MCP server"))
}

fn parsed<T: DeserializeOwned>(row: &Row) -> Result<T, Error> {
    let text: &str = row.try_get(0)?;
    serde_json::from_str(text).map_err(Error::backend("read an MCP server"))
}
