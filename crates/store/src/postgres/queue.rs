//! Calls that wait for a worker.

use super::{
    connect::{Link, Params},
    pool::Pool,
    rows::{self, STORED},
};
use crate::{
    Error, QueuedCall, Stored,
    encoding::{page, position},
};

/// Announcement of a call that waits.
pub(super) const ANNOUNCED: &str = "queued";

/// Leaves a call to the workers, and wakes them.
const ADD: &str = "WITH left_to_workers AS (
        UPDATE calls SET owner = $1, queued = true WHERE id = $2 AND tenant = $3 AND version = $4
        AND open AND (owner IS NULL OR owner = $5) RETURNING 1)
    SELECT pg_notify('ringfence', 'queued') FROM left_to_workers";

/// Whether calls wait that a process may take.
pub(super) const WAIT: &str =
    "SELECT EXISTS (SELECT 1 FROM calls WHERE queued AND (owner IS NULL OR owner = $1))";

/// The oldest calls of each tenant that wait, a few of each, first those that are first in their tenant's line.
/// The tenants are found by skipping through the index.
const CANDIDATES: &str = "WITH RECURSIVE tenants AS (
        (SELECT tenant FROM calls WHERE queued ORDER BY tenant LIMIT 1)
        UNION ALL
        SELECT (SELECT calls.tenant FROM calls WHERE queued AND calls.tenant > tenants.tenant
                ORDER BY calls.tenant LIMIT 1)
        FROM tenants WHERE tenants.tenant IS NOT NULL)
    SELECT next.seq FROM tenants CROSS JOIN LATERAL (
        SELECT calls.seq, row_number() OVER (ORDER BY calls.seq) AS place FROM calls
        WHERE calls.queued AND calls.tenant = tenants.tenant
        AND (calls.owner IS NULL OR calls.owner = $1) ORDER BY calls.seq LIMIT $2) AS next
    ORDER BY next.place, next.seq LIMIT $2";

/// Takes calls; two processes that ask at once get different ones.
const TAKE: &str = "UPDATE calls SET owner = $1, queued = false WHERE seq IN
    (SELECT seq FROM calls WHERE seq = ANY($2) AND queued AND (owner IS NULL OR owner = $1)
     ORDER BY seq FOR UPDATE SKIP LOCKED)
    AND EXISTS (SELECT 1 FROM processes WHERE processes.id = $1 AND NOT processes.dead)
    RETURNING seq";

pub(super) async fn add(pool: &Pool, process: i64, queued: QueuedCall) -> Result<(), Error> {
    let QueuedCall { tenant, id, seen, to } = &queued;
    let to = to.map(u64::cast_signed);
    let link = &*pool.read_for(tenant.as_str()).await?;
    let params: Params<'_> = &[&to, &id.0, &tenant.as_str(), &position(seen.0), &process];
    match link.query(ADD, params).await?.is_empty() {
        true => Err(Error::Stale),
        false => Ok(()),
    }
}

/// Takes calls that wait; tenants take turns.
pub(super) async fn take(pool: &Pool, process: i64, limit: usize) -> Result<Vec<Stored>, Error> {
    let link = &*pool.read().await?;
    let candidates = seqs(link, CANDIDATES, &[&process, &page(limit)]).await?;
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    let taken = seqs(link, TAKE, &[&process, &candidates]).await?;
    let sql = format!("{STORED} WHERE calls.open AND calls.seq = ANY($1) ORDER BY calls.seq");
    Ok(rows::readable(&link.query(&sql, &[&taken]).await?, ("calls", 5), rows::stored))
}

async fn seqs(link: &Link, sql: &str, params: Params<'_>) -> Result<Vec<i64>, Error> {
    let found = link.query(sql, params).await?;
    Ok(found.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}
