//! The log of facts and how far its readers have come.

use std::sync::Arc;

use ringfence_sqlite::{Connection, Db};
use ringfence_types::{Asked, CallId, Fact, Produced, State, TenantId};
use rusqlite::{OptionalExtension as _, Row, params};

use super::rows;
use crate::{Commit, Error, FactQuery, Logged, PAGE, encoding, packed::Unpacked};

pub(super) async fn newest(db: &Db) -> Result<u64, Error> {
    let newest = db.read(|connection| {
        let sql = "SELECT coalesce(max(position), 0) FROM records";
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
            "SELECT position, tenant, body FROM records WHERE position > ?1 AND call IS NOT NULL
             AND ?2 IS NULL AND ?3 IS NULL ORDER BY position"
        }
        (Some(_), None) => {
            "SELECT position, tenant, body FROM records INDEXED BY records_by_tenant
             WHERE position > ?1 AND tenant = ?2 AND call IS NOT NULL AND ?3 IS NULL
             ORDER BY position"
        }
        // Versions of a call grow with positions; version 0 has no facts.
        (_, Some(_)) => {
            "SELECT position, tenant, body FROM records INDEXED BY records_by_call
             WHERE position > ?1 AND (?2 IS NULL OR tenant = ?2) AND call = ?3 AND version > 0
             ORDER BY version"
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
    let body = rows::body(row, 2)?;
    let facts: Vec<Fact> = facts_in(&body, 2)?;
    let logged = (0..).zip(facts).map(|(index, fact)| {
        let tenant = tenant.clone();
        Logged { position, index, tenant, fact }
    });
    Ok(logged.collect())
}

fn facts_in(body: &Unpacked, index: usize) -> rusqlite::Result<Vec<Fact>> {
    encoding::facts(body).map_err(|error| rows::undecodable(index, error))
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
        let stored = rows::STORED.replacen(
            " FROM calls",
            ", records.body, records.position FROM records JOIN calls ON calls.seq = records.call",
            1,
        );
        let sql = format!(
            "{stored} WHERE records.position > ?1 AND records.version > 0
             ORDER BY records.position LIMIT ?2"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params![rows::position(after), rows::page(limit)])?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.next()?
            && bytes < MOST_BYTES
        {
            let commit = rows::read(row, ("records", rows::STORED_COLUMNS + 1), whole)?;
            bytes += size(&commit);
            found.push(Arc::new(commit));
        }
        Ok(found)
    })
    .await
}

/// Bytes of what is of any size in it, about.
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

fn whole(row: &Row<'_>) -> rusqlite::Result<Commit> {
    let call = Arc::new(rows::stored(row)?.call);
    let body = rows::body(row, rows::STORED_COLUMNS)?;
    let facts = facts_in(&body, rows::STORED_COLUMNS)?;
    let position = row.get::<_, i64>(rows::STORED_COLUMNS + 1)?.cast_unsigned();
    Ok(Commit { position, call, facts })
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
