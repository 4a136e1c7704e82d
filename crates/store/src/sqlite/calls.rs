//! Finding calls.

use ringfence_sqlite::{Connection, Db};
use ringfence_types::{CallId, KeyId, TenantId, Timestamp};
use rusqlite::{OptionalExtension as _, ToSql, params};
use uuid::Uuid;

use super::{
    record::used_by,
    rows::{self, STORED},
    slices::{Bounds, SLICE, Slice, visit},
};
use crate::{
    CallPage, CallQuery, Error, KeyUse, PAGE, Stored,
    encoding::{horizon, is_open},
};

pub(super) async fn one(db: &Db, tenant: &TenantId, id: CallId) -> Result<Option<Stored>, Error> {
    let (tenant, lane) = (tenant.clone(), tenant.clone());
    db.read_for(lane.as_str(), move |connection| {
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
) -> Result<Option<KeyUse>, Error> {
    let idempotency_key = idempotency_key.to_owned();
    db.read(move |connection| {
        let at = horizon(now.as_micros());
        let params = params![key.0.as_bytes(), idempotency_key, at];
        // The id first: an erased call has no records, and the write that refuses its key asks no more.
        let sql =
            used_by("SELECT calls.id, calls.erased_in IS NOT NULL FROM calls", &idempotency_key);
        let used = connection
            .prepare_cached(&sql)?
            .query_row(params, |row| Ok((rows::uuid(row, 0)?, row.get::<_, bool>(1)?)))
            .optional()?;
        match used {
            None => Ok(None),
            Some((id, true)) => Ok(Some(KeyUse::Erased(CallId(id)))),
            Some(_) => {
                let stored = first(connection, &used_by(STORED, &idempotency_key), params)?;
                Ok(stored.map(|stored| KeyUse::Call(Box::new(stored))))
            }
        }
    })
    .await
}

/// Rows that cannot be read are told and left out, so an answer that is shorter than `limit` says
/// nothing. A page of nothing but such rows is taken for the end.
pub(super) async fn unfinished(
    db: &Db,
    process: i64,
    after: Option<CallId>,
    limit: usize,
) -> Result<Vec<Stored>, Error> {
    // No id is smaller than nothing.
    let after = after.map_or(Vec::new(), |id| id.0.as_bytes().to_vec());
    db.read(move |connection| {
        // One process at a time has the file open, so whichever else owned a call is gone.
        let sql = format!(
            "{STORED} WHERE calls.open = 1 AND calls.id > ?1 AND calls.owner IS NOT ?2
             AND calls.queued = 0             ORDER BY calls.id LIMIT ?3"
        );
        all(connection, &sql, params![after, process, rows::page(limit)])
    })
    .await
}

pub(super) async fn list(db: &Db, query: CallQuery) -> Result<CallPage, Error> {
    let lane = query.tenant.clone();
    db.read_for(lane.as_str(), move |connection| page(connection, &query, SLICE)).await
}

/// An id and the row that it names.
type Key = ([u8; 16], i64);

fn page(connection: &Connection, query: &CallQuery, visited: usize) -> Result<CallPage, Error> {
    let slice = find(connection, query, visited)?;
    let sql = format!("{STORED} WHERE calls.seq = ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut calls = Vec::new();
    for (_, seq) in &slice.keys {
        calls.extend(rows::readable(statement.query([seq])?, rows::CALL, rows::stored)?);
    }
    Ok(CallPage { calls, next: slice.next.map(|(id, _)| CallId(Uuid::from_bytes(id))) })
}

fn find(connection: &Connection, query: &CallQuery, visited: usize) -> Result<Slice<Key>, Error> {
    // No id is larger than seventeen of the largest byte.
    let before = query.before.as_ref().map_or(&[0xff; 17][..], |id| id.0.as_bytes());
    let session = query.session.as_ref().map(|session| session.as_str());
    let mut statement = connection.prepare_cached(&selection(query))?;
    let rows = statement.query(params![
        query.tenant.as_str(),
        before,
        query.state,
        query.tool,
        session,
        query.parent.map(|id| id.0.into_bytes())
    ])?;
    let bounds = Bounds { found: query.limit.min(PAGE), visited };
    visit(rows, bounds, |row| Ok((row.get(0)?, row.get(2)?)))
}

/// One of a few texts, so that each is prepared once: the id, whether the call matches, and its row.
/// The narrowest index is visited; what else is asked for is looked at row by row.
fn selection(query: &CallQuery) -> String {
    let (mut index, mut condition) = ("calls_by_tenant", "");
    let mut filters = vec!["calls.erased_in IS NULL"];
    // What the conditions say twice tells SQLite that a partial index holds all there is to find.
    match query.state.as_deref() {
        Some("finished") => filters.push("calls.state = ?3"),
        Some(state) if is_open(state) => {
            (index, condition) = ("calls_open", " AND calls.open = 1");
            filters.push("calls.state = ?3");
        }
        Some(_) => {
            index = "calls_ended";
            condition = " AND calls.state = ?3 AND calls.open = 0 AND calls.state <> 'finished'";
        }
        None => {}
    }
    if query.parent.is_some() {
        // Few calls make more than a few: all of them are looked at.
        if query.state.is_some() && filters.len() == 1 {
            filters.push("calls.state = ?3");
        }
        (index, condition) = ("calls_by_parent", " AND calls.parent = ?6");
    }
    if query.session.is_some() {
        match index {
            "calls_by_tenant" => {
                (index, condition) = ("calls_by_session", " AND calls.session = ?5");
            }
            _ => filters.push("calls.session IS ?5"),
        }
    }
    if query.tool.is_some() {
        match index {
            "calls_by_tenant" => (index, condition) = ("calls_by_tool", " AND calls.tool = ?4"),
            _ => filters.push("calls.tool = ?4"),
        }
    }
    let matches = filters.join(" AND ");
    // Every parameter is bound whatever the text, so every text names the last one.
    format!(
        "SELECT calls.id, {matches}, calls.seq FROM calls INDEXED BY {index}
         WHERE calls.tenant = ?1 AND calls.id < ?2{condition} AND ?6 IS ?6
         ORDER BY calls.id DESC"
    )
}

fn first(
    connection: &Connection,
    sql: &str,
    params: &[&dyn ToSql],
) -> Result<Option<Stored>, Error> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = statement.query(params)?;
    let Some(row) = found.next()? else { return Ok(None) };
    Ok(Some(rows::read(row, rows::CALL, rows::stored)?))
}

fn all(connection: &Connection, sql: &str, params: &[&dyn ToSql]) -> Result<Vec<Stored>, Error> {
    let mut statement = connection.prepare_cached(sql)?;
    Ok(rows::readable(statement.query(params)?, rows::CALL, rows::stored)?)
}

#[cfg(test)]
mod tests {
    use ringfence_types::State;

    use super::*;

    fn database() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        super::super::MIGRATIONS.iter().for_each(|sql| connection.execute_batch(sql).unwrap());
        connection
    }

    /// The query plan of SQLite.
    fn plan(connection: &Connection, sql: &str) -> String {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps =
            statement.query_map([rusqlite::types::Null; 6], |row| row.get::<_, String>(3)).unwrap();
        steps.collect::<Result<Vec<_>, _>>().unwrap().join("; ")
    }

    fn query(state: Option<&str>, tool: Option<&str>, session: Option<&str>) -> CallQuery {
        CallQuery {
            tenant: "t".parse().unwrap(),
            state: state.map(str::to_owned),
            tool: tool.map(str::to_owned),
            session: session.map(|session| session.parse().unwrap()),
            parent: None,
            before: None,
            limit: 9,
        }
    }

    /// The same of the calls that one call made.
    fn made(query: CallQuery) -> CallQuery {
        CallQuery { parent: Some(CallId(Uuid::from_u128(7))), ..query }
    }

    #[test]
    fn every_filter_is_visited_along_an_index_and_nothing_is_sorted() {
        let connection = database();
        let cases = [
            (query(None, None, None), "calls_by_tenant"),
            (query(Some("finished"), None, None), "calls_by_tenant"),
            (query(Some("held"), None, None), "calls_open"),
            (query(Some("held"), Some("x"), Some("x")), "calls_open"),
            (query(Some("denied"), None, None), "calls_ended"),
            (query(Some("denied"), Some("x"), Some("x")), "calls_ended"),
            (query(None, Some("x"), None), "calls_by_tool"),
            (query(Some("finished"), Some("x"), None), "calls_by_tool"),
            (query(None, None, Some("x")), "calls_by_session"),
            (query(None, Some("x"), Some("x")), "calls_by_session"),
            (made(query(None, None, None)), "calls_by_parent"),
            (made(query(Some("held"), Some("x"), Some("x"))), "calls_by_parent"),
            (made(query(Some("denied"), None, None)), "calls_by_parent"),
        ];
        for (query, index) in cases {
            let plan = plan(&connection, &selection(&query));
            assert!(plan.contains(&format!("INDEX {index} ")), "{query:?}: {plan}");
            assert!(!plan.contains("SCAN") && !plan.contains("B-TREE"), "{query:?}: {plan}");
        }
    }

    /// Calls without their documents: enough to be found.
    fn fill(connection: &Connection, count: u128) {
        let sql =
            "INSERT INTO calls (id, tenant, tool, session, parent, state, open, version, asked_in)
                   VALUES (?1, 't', ?2, ?3, ?6, ?4, ?5, 1, 1)";
        let mut statement = connection.prepare(sql).unwrap();
        for number in 0..count {
            let tool = ["x", "y"][usize::from(number % 3 == 0)];
            let session = (number % 2 == 0).then_some("s");
            let state = ["finished", "denied", "held"][(number % 7 % 3) as usize];
            let id = Uuid::from_u128(number);
            let parent = (number % 5 == 0).then(|| Uuid::from_u128(7).into_bytes());
            let row = params![id.as_bytes(), tool, session, state, state == "held", parent];
            statement.execute(row).unwrap();
        }
    }

    #[test]
    fn a_reader_of_the_cursors_finds_each_call_once_and_no_slice_is_longer_than_it_may_be() {
        let connection = database();
        fill(&connection, 100);
        for state in [None, Some("finished"), Some("denied"), Some("held"), Some("no such")] {
            for tool in [None, Some("x"), Some("none")] {
                for session in [None, Some("s"), Some("none")] {
                    for query in [query(state, tool, session), made(query(state, tool, session))] {
                        let whole = CallQuery { limit: PAGE, ..query.clone() };
                        let expected = find(&connection, &whole, usize::MAX).unwrap().keys;
                        for visited in [1, 3, 8, 1_000] {
                            let (mut found, mut query) = (Vec::new(), query.clone());
                            loop {
                                let slice = find(&connection, &query, visited).unwrap();
                                assert!(
                                    slice.visited <= visited && slice.keys.len() <= query.limit
                                );
                                found.extend(slice.keys);
                                let Some((id, _)) = slice.next else { break };
                                query.before = Some(CallId(Uuid::from_bytes(id)));
                            }
                            assert_eq!(found, expected, "{visited} rows at a time: {query:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn open_states_are_those_that_are_not_final() {
        let open: Vec<_> = State::NAMES.into_iter().filter(|state| is_open(state)).collect();
        assert_eq!(open, ["accepted", "held", "dispatched", "running", "cancelling"]);
        assert!(!is_open("no such"));
    }
}
