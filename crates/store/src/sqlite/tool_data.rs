//! Data that tools keep between their calls.

use ringfence_sqlite::{Connection, Db};
use ringfence_types::{TenantId, ToolName};
use rusqlite::{OptionalExtension as _, params};

use super::rows;
use crate::{
    Error, ToolDataChange, ToolDataChanged, ToolDataScope, ToolDataTotals, ToolDatum, ToolDatumInfo,
};

const OF_SCOPE: &str = "tenant = ?1 AND tool = ?2 AND kind = ?3";

/// Makes a change, unless it goes beyond the quota.
pub(super) async fn change(db: &Db, change: ToolDataChange) -> Result<ToolDataChanged, Error> {
    // JSON, because SQLite takes no list.
    let names = rows::json(&change.names())?;
    db.write(move |connection| {
        let (kept, all) = totals(connection, &change.of, &names)?;
        let after = change.after(kept);
        if change.is_too_large(all, after) {
            return Ok(ToolDataChanged::TooLarge(after));
        }
        let ToolDataScope { tenant, tool, kind } = &change.of;
        let scope = (tenant.as_str(), tool.as_str(), kind.name());
        let sql = format!("DELETE FROM tool_data WHERE {OF_SCOPE} AND name = ?4");
        let mut statement = connection.prepare_cached(&sql)?;
        for name in &change.remove {
            statement.execute(params![scope.0, scope.1, scope.2, name])?;
        }
        let mut statement = connection.prepare_cached(
            "INSERT OR REPLACE INTO tool_data (tenant, tool, kind, name, changed_at, content)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        for datum in &change.put {
            let at = change.at.as_micros();
            statement.execute(params![scope.0, scope.1, scope.2, datum.name, at, datum.bytes])?;
        }
        Ok(ToolDataChanged::Done(after))
    })
    .await
}

/// Totals of all names but these, and of all.
fn totals(
    connection: &Connection,
    of: &ToolDataScope,
    names: &str,
) -> Result<(ToolDataTotals, ToolDataTotals), Error> {
    let sql = format!(
        "SELECT name IN (SELECT value FROM json_each(?4)), count(*),
             sum(length(CAST(name AS BLOB)) + length(content))
         FROM tool_data WHERE {OF_SCOPE} GROUP BY 1"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let scope = params![of.tenant.as_str(), of.tool.as_str(), of.kind.name(), names];
    let mut found = statement.query(scope)?;
    let (mut kept, mut all) = (ToolDataTotals::default(), ToolDataTotals::default());
    while let Some(row) = found.next()? {
        let (count, bytes): (i64, i64) = (row.get(1)?, row.get(2)?);
        let (count, bytes) = (count.cast_unsigned(), bytes.cast_unsigned());
        all.names += count;
        all.bytes += bytes;
        if !row.get::<_, bool>(0)? {
            kept = ToolDataTotals { bytes, names: count };
        }
    }
    Ok((kept, all))
}

/// Names with their sizes, sorted.
pub(super) async fn list(db: &Db, of: &ToolDataScope) -> Result<Vec<ToolDatumInfo>, Error> {
    let of = of.clone();
    let lane = of.tenant.to_string();
    db.read_for(&lane, move |connection| {
        let sql = format!(
            "SELECT name, length(content), changed_at FROM tool_data WHERE {OF_SCOPE} ORDER BY name"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let scope = params![of.tenant.as_str(), of.tool.as_str(), of.kind.name()];
        let found = statement.query_map(scope, |row| {
            Ok(ToolDatumInfo {
                name: row.get(0)?,
                size: row.get::<_, i64>(1)?.cast_unsigned(),
                changed_at: rows::timestamp(row, 2)?,
            })
        })?;
        Ok(found.collect::<Result<_, _>>()?)
    })
    .await
}

/// Contents, of one name or of all, sorted.
pub(super) async fn read(
    db: &Db,
    of: &ToolDataScope,
    name: Option<&str>,
) -> Result<Vec<ToolDatum>, Error> {
    let (of, name) = (of.clone(), name.map(str::to_owned));
    let lane = of.tenant.to_string();
    db.read_for(&lane, move |connection| {
        let sql = format!(
            "SELECT name, content FROM tool_data
             WHERE {OF_SCOPE} AND (?4 IS NULL OR name = ?4) ORDER BY name"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let scope = params![of.tenant.as_str(), of.tool.as_str(), of.kind.name(), name];
        let found = statement
            .query_map(scope, |row| Ok(ToolDatum { name: row.get(0)?, bytes: row.get(1)? }))?;
        Ok(found.collect::<Result<_, _>>()?)
    })
    .await
}

/// Removes everything that a tool keeps, for one tenant or for all.
pub(super) async fn remove(
    db: &Db,
    tenant: Option<&TenantId>,
    tool: &ToolName,
) -> Result<u64, Error> {
    let (tenant, tool) = (tenant.cloned(), tool.clone());
    db.write(move |connection| {
        let tenant = tenant.as_ref().map(TenantId::as_str);
        let removed = connection
            .prepare_cached(
                "DELETE FROM tool_data WHERE tool = ?1 AND (?2 IS NULL OR tenant = ?2)",
            )?
            .execute(params![tool.as_str(), tenant])?;
        Ok(removed as u64)
    })
    .await
}

/// Whether a tool keeps anything, for any tenant.
pub(super) async fn has(db: &Db, tool: &ToolName) -> Result<bool, Error> {
    let tool = tool.clone();
    db.look_up(move |connection| {
        let sql = "SELECT 1 FROM tool_data WHERE tool = ?1 LIMIT 1";
        let found = connection.prepare_cached(sql)?.query_row([tool.as_str()], |_| Ok(()));
        Ok(found.optional()?.is_some())
    })
    .await
}
