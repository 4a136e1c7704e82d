//! MCP servers whose tools are offered.

use ringfence_sqlite::Db;
use ringfence_types::{McpServer, ServerName};
use rusqlite::params;

use super::rows;
use crate::{Error, PAGE};

/// Adds a server; `false` if there is one of its name.
pub(super) async fn add(db: &Db, server: McpServer) -> Result<bool, Error> {
    let text = rows::json(&server)?;
    db.write(move |connection| {
        let added = connection
            .prepare_cached("INSERT OR IGNORE INTO mcp_servers (name, server) VALUES (?1, ?2)")?
            .execute(params![server.name.as_str(), text])?;
        Ok(added > 0)
    })
    .await
}

/// Removes a server; `false` if there was none.
pub(super) async fn remove(db: &Db, name: &ServerName) -> Result<bool, Error> {
    let name = name.clone();
    db.write(move |connection| {
        let removed = connection
            .prepare_cached("DELETE FROM mcp_servers WHERE name = ?1")?
            .execute([name.as_str()])?;
        Ok(removed > 0)
    })
    .await
}

/// Servers by name.
pub(super) async fn list(db: &Db) -> Result<Vec<McpServer>, Error> {
    db.read(move |connection| {
        let sql = "SELECT server FROM mcp_servers ORDER BY name LIMIT ?1";
        let mut statement = connection.prepare_cached(sql)?;
        let found = statement.query_map([rows::page(PAGE)], |row| rows::parsed(row, 0))?;
        Ok(found.collect::<Result<_, _>>()?)
    })
    .await
}
