//! Data that tools keep between their calls.

use ringfence_types::{TenantId, ToolName};
use tokio_postgres::Row;

use super::{
    connect::Link,
    migrate::LOCKS,
    pool::Pool,
    rows::{self, check_text},
};
use crate::{
    Error, ToolDataChange, ToolDataChanged, ToolDataScope, ToolDataTotals, ToolDatum,
    ToolDatumInfo, encoding::Undecodable,
};

const OF_SCOPE: &str = "tenant = $1 AND tool = $2 AND kind = $3";

/// Makes a change, unless it goes beyond the quota. Changes of one scope are made one after the other.
pub(super) async fn change(pool: &Pool, change: ToolDataChange) -> Result<ToolDataChanged, Error> {
    change.names().into_iter().try_for_each(check_text)?;
    let ToolDataScope { tenant, tool, kind } = &change.of;
    let (tenant, tool, kind) = (tenant.as_str(), tool.as_str(), kind.name());
    // A connection of its own: dropped half-way, it leaves no transaction behind.
    let link = Link::open(pool.url()).await?;
    link.batch("BEGIN").await?;
    let scope = format!("{tenant}\n{tool}\n{kind}");
    let lock = "SELECT pg_advisory_xact_lock($1, hashtext($2))";
    // Never 1 to 3, which are locks of the whole store: those are of another first number.
    link.query(lock, &[&(LOCKS ^ 0x5444), &scope]).await?;
    let sql = format!(
        "SELECT name = ANY($4), count(*), sum(octet_length(name) + octet_length(content))::bigint
         FROM tool_data WHERE {OF_SCOPE} GROUP BY 1"
    );
    let names = change.names();
    let (mut kept, mut all) = (ToolDataTotals::default(), ToolDataTotals::default());
    for row in link.query(&sql, &[&tenant, &tool, &kind, &names]).await? {
        let (count, bytes): (i64, i64) = (row.try_get(1)?, row.try_get(2)?);
        let (count, bytes) = (count.cast_unsigned(), bytes.cast_unsigned());
        all.names += count;
        all.bytes += bytes;
        if !row.try_get::<_, bool>(0)? {
            kept = ToolDataTotals { bytes, names: count };
        }
    }
    let after = change.after(kept);
    if change.is_too_large(all, after) {
        return Ok(ToolDataChanged::TooLarge(after));
    }
    let sql = format!("DELETE FROM tool_data WHERE {OF_SCOPE} AND name = ANY($4)");
    link.execute(&sql, &[&tenant, &tool, &kind, &names]).await?;
    let at = change.at.as_micros();
    let sql = "INSERT INTO tool_data (tenant, tool, kind, name, changed_at, content)
               VALUES ($1, $2, $3, $4, $5, $6)";
    for datum in &change.put {
        link.execute(sql, &[&tenant, &tool, &kind, &datum.name, &at, &datum.bytes]).await?;
    }
    link.batch("COMMIT").await?;
    Ok(ToolDataChanged::Done(after))
}

/// Names with their sizes, sorted.
pub(super) async fn list(pool: &Pool, of: &ToolDataScope) -> Result<Vec<ToolDatumInfo>, Error> {
    let ToolDataScope { tenant, tool, kind } = of;
    let link = &*pool.read_for(tenant.as_str()).await?;
    let sql = format!(
        "SELECT octet_length(content)::bigint, name, changed_at FROM tool_data WHERE {OF_SCOPE}
         ORDER BY name COLLATE \"C\""
    );
    let found = link.query(&sql, &[&tenant.as_str(), &tool.as_str(), &kind.name()]).await?;
    found.iter().map(|row| rows::whole(row, ("tool_data", 0), info)).collect()
}

fn info(row: &Row) -> Result<ToolDatumInfo, Undecodable> {
    let (size, changed_at) = (rows::unsigned(row, 0)?, rows::timestamp(row, 2)?);
    Ok(ToolDatumInfo { name: row.try_get(1)?, size, changed_at })
}

/// Contents, of one name or of all, sorted.
pub(super) async fn read(
    pool: &Pool,
    of: &ToolDataScope,
    name: Option<&str>,
) -> Result<Vec<ToolDatum>, Error> {
    let ToolDataScope { tenant, tool, kind } = of;
    if name.is_some_and(|name| name.contains('\0')) {
        return Ok(Vec::new());
    }
    let link = &*pool.read_for(tenant.as_str()).await?;
    let sql = format!(
        "SELECT name, content FROM tool_data WHERE {OF_SCOPE} AND ($4::text IS NULL OR name = $4)
         ORDER BY name COLLATE \"C\""
    );
    let found = link.query(&sql, &[&tenant.as_str(), &tool.as_str(), &kind.name(), &name]).await?;
    let datum = |row: &Row| -> Result<ToolDatum, Error> {
        Ok(ToolDatum { name: row.try_get(0)?, bytes: row.try_get(1)? })
    };
    found.iter().map(datum).collect()
}

/// Removes everything that a tool keeps, for one tenant or for all.
pub(super) async fn remove(
    pool: &Pool,
    tenant: Option<&TenantId>,
    tool: &ToolName,
) -> Result<u64, Error> {
    let tenant = tenant.map(TenantId::as_str);
    let link = &*pool.read().await?;
    let sql = "DELETE FROM tool_data WHERE tool = $1 AND ($2::text IS NULL OR tenant = $2)";
    Ok(link.execute(sql, &[&tool.as_str(), &tenant]).await?)
}

/// Whether a tool keeps anything, for any tenant.
pub(super) async fn has(pool: &Pool, tool: &ToolName) -> Result<bool, Error> {
    let link = &*pool.look_up().await?;
    let sql = "SELECT 1 FROM tool_data WHERE tool = $1 LIMIT 1";
    Ok(link.first(sql, &[&tool.as_str()]).await?.is_some())
}
