//! The log of facts, and the positions of its readers.

use std::sync::Arc;

use ringfence_types::{Asked, Fact, Produced, State, TenantId};
use tokio_postgres::Row;

use super::{
    connect::Link,
    pool::Pool,
    rows::{self, STORED, STORED_COLUMNS},
};
use crate::{
    Commit, Error, FactQuery, Logged, PAGE,
    encoding::{self, Undecodable, position},
    packed::Unpacked,
};

/// Rows per query: their bodies are of some size.
const ROUND: i64 = 200;

/// Bytes of text in one answer with calls, which may be large; but always one commit.
const MAX_BYTES: usize = 8 << 20;

/// Newest positions: of a record with facts, and of the ledger.
pub(super) const HEADS: &str = "SELECT
    coalesce((SELECT position FROM records WHERE version > 0 ORDER BY position DESC LIMIT 1), 0),
    coalesce((SELECT max(position) FROM ledger), 0)";

pub(super) async fn list(pool: &Pool, query: FactQuery) -> Result<Vec<Logged>, Error> {
    let FactQuery { tenant, call, after, limit } = &query;
    let tenant = tenant.as_ref().map(TenantId::as_str);
    let limit = (*limit).min(PAGE);
    let link = &*pool.read_for(tenant.unwrap_or_default()).await?;
    let call = match call {
        Some(call) => match link.first("SELECT seq FROM calls WHERE id = $1", &[&call.0]).await? {
            Some(row) => Some(row.try_get::<_, i64>(0)?),
            None => return Ok(Vec::new()),
        },
        None => None,
    };
    let (mut found, mut after) = (Vec::new(), position(*after));
    while found.len() < limit {
        let round = ROUND.min(limit as i64);
        let rows = read(link, tenant, call, (after, round)).await?;
        for row in &rows {
            if found.len() >= limit {
                break;
            }
            found.extend(rows::whole(row, ("records", 0), commit)?);
            after = row.try_get(0)?;
        }
        if (rows.len() as i64) < round {
            break;
        }
    }
    Ok(found)
}

async fn read(
    link: &Link,
    tenant: Option<&str>,
    call: Option<i64>,
    (after, round): (i64, i64),
) -> Result<Vec<Row>, Error> {
    let select = "SELECT position, tenant, body FROM records WHERE position > $1";
    let found = match (tenant, call) {
        (None, None) => {
            let sql = format!("{select} AND call IS NOT NULL ORDER BY position LIMIT $2");
            link.query(&sql, &[&after, &round]).await
        }
        (Some(tenant), None) => {
            let of = "AND call IS NOT NULL AND tenant = $3";
            let sql = format!("{select} {of} ORDER BY position LIMIT $2");
            link.query(&sql, &[&after, &round, &tenant]).await
        }
        // Versions of a call grow with positions; version 0 has no facts.
        (tenant, Some(call)) => {
            let of = "AND call = $3 AND version > 0 AND ($4::text IS NULL OR tenant = $4)";
            let sql = format!("{select} {of} ORDER BY version LIMIT $2");
            link.query(&sql, &[&after, &round, &call, &tenant]).await
        }
    };
    Ok(found?)
}

/// Facts of one commit.
fn commit(row: &Row) -> Result<Vec<Logged>, Undecodable> {
    let position = rows::unsigned(row, 0)?;
    let tenant: TenantId = rows::name(row, 1)?;
    let facts = facts(row, 2)?;
    let logged = (0..).zip(facts).map(|(index, fact)| {
        let tenant = tenant.clone();
        Logged { position, index, tenant, fact }
    });
    Ok(logged.collect())
}

fn facts(row: &Row, index: usize) -> Result<Vec<Fact>, Undecodable> {
    encoding::facts(&Unpacked::of(row.try_get(index)?)?)
}

pub(super) async fn commits(
    pool: &Pool,
    after: u64,
    limit: usize,
) -> Result<Vec<Arc<Commit>>, Error> {
    let link = &*pool.read().await?;
    let stored = STORED.replacen(
        " FROM calls",
        ", records.body, records.position FROM records JOIN calls ON calls.seq = records.call",
        1,
    );
    let sql = format!(
        "{stored} WHERE records.position > $1 AND records.version > 0
             ORDER BY records.position LIMIT $2"
    );
    let round = ROUND.min(encoding::page(limit));
    let rows = link.query(&sql, &[&position(after), &round]).await?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    for row in &rows {
        if bytes >= MAX_BYTES {
            break;
        }
        let commit = rows::whole(row, ("records", STORED_COLUMNS + 1), whole)?;
        bytes += size(&commit);
        found.push(Arc::new(commit));
    }
    Ok(found)
}

/// Bytes of the parts of any size, about.
fn size(commit: &Commit) -> usize {
    let Asked { args, metadata, .. } = &commit.call.asked;
    let result = match &commit.call.state {
        State::Finished(finished) => match &finished.produced {
            Produced::Result(result) => result.as_str().len(),
            Produced::Error(_) => 0,
        },
        _ => 0,
    };
    let facts = commit.facts.iter().map(|fact| fact.data.as_str().len());
    args.as_str().len() + metadata.as_str().len() + result + facts.sum::<usize>()
}

fn whole(row: &Row) -> Result<Commit, Undecodable> {
    let call = Arc::new(rows::stored(row)?.call);
    let facts = facts(row, STORED_COLUMNS)?;
    Ok(Commit { position: rows::unsigned(row, STORED_COLUMNS + 1)?, call, facts })
}

pub(super) async fn cursor(pool: &Pool, name: &str) -> Result<u64, Error> {
    let link = &*pool.read().await?;
    let row = link.first("SELECT position FROM cursors WHERE name = $1", &[&name]).await?;
    Ok(row.map_or(Ok(0), |row| row.try_get::<_, i64>(0))?.cast_unsigned())
}

pub(super) async fn set_cursor(pool: &Pool, name: &str, at: u64) -> Result<(), Error> {
    let link = &*pool.read().await?;
    let sql = "INSERT INTO cursors (name, position) VALUES ($1, $2) ON CONFLICT (name)
                   DO UPDATE SET position = greatest(cursors.position, excluded.position)";
    link.execute(sql, &[&name, &position(at)]).await?;
    Ok(())
}
