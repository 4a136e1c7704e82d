//! Finding calls.

use ringfence_sqlite::{Connection, Db};
use ringfence_types::{CallId, KeyId, TenantId, Timestamp};
use rusqlite::{OptionalExtension as _, ToSql, params};

use super::{
    record::horizon,
    rows::{self, STORED},
};
use crate::{CallQuery, Error, Stored};

pub(super) async fn one(db: &Db, tenant: &TenantId, id: CallId) -> Result<Option<Stored>, Error> {
    let tenant = tenant.clone();
    db.read(move |connection| {
        let sql = format!("{STORED} WHERE calls.id = ?1 AND calls.tenant = ?2");
        first(connection, &sql, params![id.0.as_bytes(), tenant.as_str()])
    })
    .await
}

pub(super) async fn idempotent(
    db: &Db,
    key: KeyId,
    idempotency_key: &str,
    now: Timestamp,
) -> Result<Option<Stored>, Error> {
    let idempotency_key = idempotency_key.to_owned();
    db.read(move |connection| {
        let sql = format!(
            "{STORED} JOIN idempotency ON idempotency.seq = calls.seq
             WHERE key = ?1 AND idempotency_key = ?2 AND at > ?3"
        );
        let at = horizon(now.as_micros());
        first(connection, &sql, params![key.0.as_bytes(), idempotency_key, at])
    })
    .await
}

pub(super) async fn unfinished(
    db: &Db,
    after: Option<CallId>,
    limit: usize,
) -> Result<Vec<Stored>, Error> {
    // No id is smaller than nothing.
    let after = after.map_or(Vec::new(), |id| id.0.as_bytes().to_vec());
    db.read(move |connection| {
        let sql =
            format!("{STORED} WHERE calls.open = 1 AND calls.id > ?1 ORDER BY calls.id LIMIT ?2");
        all(connection, &sql, params![after, rows::page(limit)])
    })
    .await
}

pub(super) async fn list(db: &Db, query: CallQuery) -> Result<Vec<Stored>, Error> {
    let sql = selection(&query);
    db.read(move |connection| {
        // No id is larger than seventeen of the largest byte.
        let before = query.before.as_ref().map_or(&[0xff; 17][..], |id| id.0.as_bytes());
        let session = query.session.as_ref().map(|session| session.as_str());
        all(
            connection,
            &sql,
            params![
                query.tenant.as_str(),
                before,
                query.state,
                query.tool,
                session,
                rows::page(query.limit)
            ],
        )
    })
    .await
}

/// One of a few texts, so that each is prepared once. What a filter says twice tells SQLite that
/// one of the partial indexes holds all there is to find.
fn selection(query: &CallQuery) -> String {
    let mut sql = format!("{STORED} WHERE calls.tenant = ?1 AND calls.id < ?2");
    sql += match query.state.as_deref() {
        None => " AND ?3 IS NULL",
        Some("finished") => " AND calls.state = ?3",
        Some(state) if is_open(state) => " AND calls.state = ?3 AND calls.open = 1",
        Some(_) => " AND calls.state = ?3 AND calls.open = 0 AND calls.state <> 'finished'",
    };
    sql += if query.tool.is_some() { " AND calls.tool = ?4" } else { " AND ?4 IS NULL" };
    sql += if query.session.is_some() { " AND calls.session = ?5" } else { " AND ?5 IS NULL" };
    sql + " ORDER BY calls.id DESC LIMIT ?6"
}

/// Whether a state of this name is not final.
fn is_open(state: &str) -> bool {
    matches!(state, "accepted" | "held" | "dispatched" | "running" | "cancelling")
}

fn first(
    connection: &Connection,
    sql: &str,
    params: &[&dyn ToSql],
) -> Result<Option<Stored>, Error> {
    Ok(connection.prepare_cached(sql)?.query_row(params, rows::stored).optional()?)
}

fn all(connection: &Connection, sql: &str, params: &[&dyn ToSql]) -> Result<Vec<Stored>, Error> {
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_map(params, rows::stored)?.collect::<Result<_, _>>()?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use ringfence_types::State;

    use super::*;

    /// What SQLite says it would do.
    fn plan(connection: &Connection, sql: &str) -> String {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps =
            statement.query_map([rusqlite::types::Null; 6], |row| row.get::<_, String>(3)).unwrap();
        steps.collect::<Result<Vec<_>, _>>().unwrap().join("; ")
    }

    #[test]
    fn every_filter_has_an_index_and_nothing_is_sorted() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(super::super::MIGRATIONS[0]).unwrap();
        let query = |state: Option<&str>, tool: Option<&str>, session: Option<&str>| CallQuery {
            tenant: "t".parse().unwrap(),
            state: state.map(str::to_owned),
            tool: tool.map(str::to_owned),
            session: session.map(|session| session.parse().unwrap()),
            before: None,
            limit: 9,
        };
        let cases = [
            (query(None, None, None), "calls_by_tenant"),
            (query(Some("finished"), None, None), "calls_by_tenant"),
            (query(Some("held"), None, None), "calls_open"),
            (query(Some("denied"), None, None), "calls_ended"),
            (query(None, Some("x"), None), "calls_by_tool"),
            (query(None, None, Some("x")), "calls_by_session"),
        ];
        for (query, index) in cases {
            let plan = plan(&connection, &selection(&query));
            assert!(plan.contains(&format!("INDEX {index} ")), "{query:?}: {plan}");
            assert!(!plan.contains("SCAN") && !plan.contains("B-TREE"), "{query:?}: {plan}");
        }
    }

    #[test]
    fn open_states_are_those_that_are_not_final() {
        let open: Vec<_> = State::NAMES.into_iter().filter(|state| is_open(state)).collect();
        assert_eq!(open, ["accepted", "held", "dispatched", "running", "cancelling"]);
        assert!(!is_open("no such"));
    }
}
