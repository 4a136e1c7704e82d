//! Uploaded skills.

use ringfence_types::{Digest, ToolRef};
use tokio_postgres::{Row, error::SqlState};

use super::{
    pool::Pool,
    rows::{self, check_text},
};
use crate::{
    Error, PAGE, UploadRow,
    encoding::{Undecodable, page},
};

/// Adds an upload; `false` if its version is that of another one.
pub(super) async fn add(pool: &Pool, row: UploadRow, content: Vec<u8>) -> Result<bool, Error> {
    let UploadRow { tool, at, .. } = &row;
    check_text(&tool.version)?;
    let (digest, at) = (tool.digest.as_bytes().as_slice(), at.as_micros());
    let (name, version) = (tool.name.as_str(), tool.version.as_str());
    let link = &*pool.read().await?;
    let sql = "INSERT INTO uploads (digest, name, version, at, revision, content)
               VALUES ($1, $2, $3, $4, 1, $5) ON CONFLICT (digest) DO UPDATE SET
               at = excluded.at, content = excluded.content, revision = uploads.revision + 1
               WHERE uploads.content IS NULL";
    match link.execute(sql, &[&digest, &name, &version, &at, &content]).await {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Removes an upload; `false` if there was none.
pub(super) async fn remove(pool: &Pool, digest: Digest) -> Result<bool, Error> {
    let link = &*pool.read().await?;
    let sql = "UPDATE uploads SET content = NULL, revision = revision + 1
               WHERE digest = $1 AND content IS NOT NULL";
    Ok(link.execute(sql, &[&digest.as_bytes().as_slice()]).await? > 0)
}

/// Number that grows with every change. It is a sum: commits may become visible in any order.
pub(super) async fn version(pool: &Pool) -> Result<u64, Error> {
    let link = &*pool.look_up().await?;
    let sql = "SELECT coalesce(sum(revision), 0)::bigint FROM uploads";
    let sum: i64 = link.one(sql, &[]).await?.try_get(0)?;
    Ok(sum.cast_unsigned())
}

/// Uploads by digest.
pub(super) async fn list(pool: &Pool, after: Option<Digest>) -> Result<Vec<UploadRow>, Error> {
    let link = &*pool.look_up().await?;
    let sql = "SELECT digest, name, version, at, content IS NULL FROM uploads
               WHERE digest > $1 ORDER BY digest LIMIT $2";
    let after = after.as_ref().map(|digest| digest.as_bytes().as_slice()).unwrap_or_default();
    let found = link.query(sql, &[&after, &page(PAGE)]).await?;
    found.iter().map(|row| rows::whole(row, ("uploads", 0), self::row)).collect()
}

/// Content of an upload.
pub(super) async fn content(pool: &Pool, digest: Digest) -> Result<Option<Vec<u8>>, Error> {
    let link = &*pool.read().await?;
    let sql = "SELECT content FROM uploads WHERE digest = $1";
    let found = link.first(sql, &[&digest.as_bytes().as_slice()]).await?;
    Ok(found.map(|row| row.try_get::<_, Option<Vec<u8>>>(0)).transpose()?.flatten())
}

fn row(row: &Row) -> Result<UploadRow, Undecodable> {
    let tool = ToolRef {
        name: rows::name(row, 1)?,
        version: row.try_get(2)?,
        digest: rows::digest(row, 0)?,
    };
    Ok(UploadRow { tool, at: rows::timestamp(row, 3)?, is_removed: row.try_get(4)? })
}
