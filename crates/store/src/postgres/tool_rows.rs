//! State of tool versions. It is written by a batch.

use ringfence_types::{Digest, Json, ToolRef};
use tokio_postgres::Row;

use super::{
    connect::{DbError, Link},
    pool::Pool,
    rows::{self, check_text},
};
use crate::{
    Error, NewToolRow, ToolRow,
    encoding::{self, Undecodable, page, position},
};

const COLUMNS: &str =
    "SELECT revision, digest, name, version, status, about, definition FROM tool_rows";

/// Refuses texts that PostgreSQL would refuse, before they are part of a batch.
pub(super) fn check(new: &[NewToolRow]) -> Result<(), Error> {
    for NewToolRow { row, .. } in new {
        check_text(&row.tool.version)?;
        check_text(&encoding::json(&row.about)?)?;
        row.definition.as_ref().map_or(Ok(()), |definition| check_text(definition.as_str()))?;
    }
    Ok(())
}

/// Writes rows within the transaction of a batch. The table is locked against other writers until the
/// commit: revisions become visible in their order.
pub(super) async fn put(link: &Link, new: &[NewToolRow]) -> Result<Result<(), Error>, DbError> {
    // A refused change leaves nothing of itself in the transaction, which others share.
    let lock = "LOCK TABLE tool_rows IN SHARE ROW EXCLUSIVE MODE; SAVEPOINT tool_rows";
    link.batch(lock).await?;
    let done = put_all(link, new).await?;
    let end = match done {
        Ok(()) => "RELEASE SAVEPOINT tool_rows",
        Err(_) => "ROLLBACK TO SAVEPOINT tool_rows",
    };
    link.batch(end).await?;
    Ok(done)
}

async fn put_all(link: &Link, new: &[NewToolRow]) -> Result<Result<(), Error>, DbError> {
    for NewToolRow { seen, row } in new {
        let about = match encoding::json(&row.about) {
            Ok(about) => about,
            Err(refused) => return Ok(Err(refused)),
        };
        let digest = row.tool.digest.as_bytes().as_slice();
        let status = row.status.name();
        let changed = match seen {
            None => {
                let sql = "INSERT INTO tool_rows
                    (digest, revision, name, version, status, about, definition)
                    VALUES ($1, (SELECT coalesce(max(revision), 0) + 1 FROM tool_rows),
                            $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";
                let (name, version) = (row.tool.name.as_str(), row.tool.version.as_str());
                let definition = row.definition.as_ref().map(Json::as_str);
                link.execute(sql, &[&digest, &name, &version, &status, &about, &definition]).await?
            }
            Some(seen) => {
                let sql = "UPDATE tool_rows SET status = $3, about = $4,
                    revision = (SELECT coalesce(max(revision), 0) + 1 FROM tool_rows)
                    WHERE digest = $1 AND revision = $2";
                link.execute(sql, &[&digest, &position(*seen), &status, &about]).await?
            }
        };
        if changed != 1 {
            return Ok(Err(Error::Stale));
        }
    }
    Ok(Ok(()))
}

/// Rows after a revision, in the order of their changes.
pub(super) async fn after(
    pool: &Pool,
    revision: u64,
    limit: usize,
) -> Result<Vec<(u64, ToolRow)>, Error> {
    let link = &*pool.look_up().await?;
    let sql = format!("{COLUMNS} WHERE revision > $1 ORDER BY revision LIMIT $2");
    let found = link.query(&sql, &[&position(revision), &page(limit)]).await?;
    found.iter().map(|row| rows::whole(row, ("tool_rows", 0), self::row)).collect()
}

/// The row of a version.
pub(super) async fn one(pool: &Pool, digest: Digest) -> Result<Option<(u64, ToolRow)>, Error> {
    let link = &*pool.look_up().await?;
    let sql = format!("{COLUMNS} WHERE digest = $1");
    let found = link.first(&sql, &[&digest.as_bytes().as_slice()]).await?;
    found.map(|row| rows::whole(&row, ("tool_rows", 0), self::row)).transpose()
}

fn row(row: &Row) -> Result<(u64, ToolRow), Undecodable> {
    let definition: Option<&str> = row.try_get(6)?;
    let definition = definition.map(|text| Json::parse(text.as_bytes())).transpose()?;
    let tool = ToolRef {
        name: rows::name(row, 2)?,
        version: row.try_get(3)?,
        digest: rows::digest(row, 1)?,
    };
    let (status, about) = (rows::name(row, 4)?, rows::parsed(row, 5)?);
    Ok((rows::unsigned(row, 0)?, ToolRow { tool, status, definition, about }))
}
