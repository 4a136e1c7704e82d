//! The log of facts and how far its readers have come.

use std::sync::Arc;

use ringfence_sqlite::{Connection, Db};
use ringfence_types::{CallId, Fact, TenantId};
use rusqlite::{OptionalExtension as _, Row, params};

use super::rows;
use crate::{Commit, Error, FactQuery, Logged, PAGE};

pub(super) async fn newest(db: &Db) -> Result<u64, Error> {
    let newest = db.read(|connection| {
        let sql = "SELECT coalesce(max(position), 0) FROM facts";
        Ok::<_, Error>(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?)
    });
    newest.await.map(i64::cast_unsigned)
}

pub(super) async fn list(db: &Db, query: FactQuery) -> Result<Vec<Logged>, Error> {
    let lane = query.tenant.as_ref().map_or(String::new(), ToString::to_string);
    db.read_for(&lane, move |connection| {
        let FactQuery { tenant, call, after, limit } = &query;
        let tenant = tenant.as_ref().map(TenantId::as_str);
        let call = match call.map(|call| seq(connection, call)).transpose()? {
            Some(None) => return Ok(Vec::new()),
            found => found.flatten(),
        };
        let mut statement = connection.prepare_cached(selection(tenant, call))?;
        let rows =
            statement.query_and_then(params![rows::position(*after), tenant, call], commit)?;
        whole_commits(rows, *limit)
    })
    .await
}

const fn selection(tenant: Option<&str>, call: Option<i64>) -> &'static str {
    match (tenant, call) {
        (None, None) => {
            "SELECT position, tenant, facts FROM facts
             WHERE position > ?1 AND ?2 IS NULL AND ?3 IS NULL ORDER BY position"
        }
        (Some(_), None) => {
            "SELECT position, tenant, facts FROM facts INDEXED BY facts_by_tenant
             WHERE position > ?1 AND tenant = ?2 AND ?3 IS NULL ORDER BY position"
        }
        (_, Some(_)) => {
            "SELECT position, tenant, facts FROM facts INDEXED BY facts_by_call
             WHERE position > ?1 AND (?2 IS NULL OR tenant = ?2) AND call = ?3 ORDER BY position"
        }
    }
}

fn seq(connection: &Connection, call: CallId) -> Result<Option<i64>, Error> {
    let mut statement = connection.prepare_cached("SELECT seq FROM calls WHERE id = ?1")?;
    Ok(statement.query_row([call.0.as_bytes()], |row| row.get(0)).optional()?)
}

/// The facts of one commit.
fn commit(row: &Row<'_>) -> Result<Vec<Logged>, rusqlite::Error> {
    let position = row.get::<_, i64>(0)?.cast_unsigned();
    let tenant: TenantId = rows::name(row, 1)?;
    let facts: Vec<Fact> = rows::parsed(row, 2)?;
    let logged = (0..).zip(facts).map(|(index, fact)| {
        let tenant = tenant.clone();
        Logged { position, index, tenant, fact }
    });
    Ok(logged.collect())
}

/// Takes commits until there are enough facts, without splitting one.
fn whole_commits(
    commits: impl Iterator<Item = Result<Vec<Logged>, rusqlite::Error>>,
    limit: usize,
) -> Result<Vec<Logged>, Error> {
    let mut found = Vec::new();
    for commit in commits {
        if found.len() >= limit.min(PAGE) {
            break;
        }
        found.extend(commit?);
    }
    Ok(found)
}

/// Most bytes of text in one answer with calls, which may be large; but always one commit.
const MOST_BYTES: usize = 8 << 20;

pub(super) async fn commits(db: &Db, after: u64, limit: usize) -> Result<Vec<Arc<Commit>>, Error> {
    db.read(move |connection| {
        let mut statement = connection.prepare_cached(
            "SELECT asked.asked, calls.now, calls.version, calls.id, facts.facts, facts.position FROM facts
             JOIN calls ON calls.seq = facts.call JOIN asked ON asked.seq = facts.call
             WHERE facts.position > ?1 ORDER BY facts.position LIMIT ?2",
        )?;
        let mut rows = statement.query(params![rows::position(after), rows::page(limit)])?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.next()?
            && bytes < MOST_BYTES
        {
            for column in [0, 1, 4] {
                bytes += row.get_ref(column)?.as_str().map_or(0, str::len);
            }
            found.push(Arc::new(rows::read(row, ("facts", 5), whole)?));
        }
        Ok(found)
    })
    .await
}

fn whole(row: &Row<'_>) -> rusqlite::Result<Commit> {
    let call = Arc::new(rows::stored(row)?.call);
    let facts = rows::parsed(row, 4)?;
    Ok(Commit { position: row.get::<_, i64>(5)?.cast_unsigned(), call, facts })
}

pub(super) async fn cursor(db: &Db, name: &str) -> Result<u64, Error> {
    let name = name.to_owned();
    let position: Option<i64> = db
        .read(move |connection| {
            let sql = "SELECT position FROM cursors WHERE name = ?1";
            let mut statement = connection.prepare_cached(sql)?;
            Ok::<_, Error>(statement.query_row([&name], |row| row.get(0)).optional()?)
        })
        .await?;
    Ok(position.map_or(0, i64::cast_unsigned))
}

pub(super) async fn set_cursor(db: &Db, name: &str, position: u64) -> Result<(), Error> {
    let name = name.to_owned();
    db.write(move |connection| {
        connection
            .prepare_cached(
                "INSERT INTO cursors (name, position) VALUES (?1, ?2)
                 ON CONFLICT (name) DO UPDATE SET position = max(position, excluded.position)",
            )?
            .execute(params![name, rows::position(position)])?;
        Ok(())
    })
    .await
}
