//! Finding entries of the ledger.

use ringfence_sqlite::{Connection, Db};
use ringfence_types::{EntryKind, PersonaId, SessionId, ToolName};
use rusqlite::params;

use super::{
    ledger::{columns, placed},
    rows,
};
use crate::{EntryQuery, Error, Placed};

/// What concerns the whole server is everybody's, so a tenant's entries are found in two places.
/// Each is in order, and so is what is made of both.
pub(super) async fn list(db: &Db, query: EntryQuery) -> Result<Vec<Placed>, Error> {
    db.read(move |connection| {
        let Some(tenant) = &query.tenant else { return of(connection, &query, None) };
        let own = of(connection, &query, Some(tenant.as_str()))?;
        // Nothing of the server's belongs to a session, a persona or a call.
        let is_narrow = query.call.is_some() || query.session.is_some() || query.persona.is_some();
        if is_narrow {
            return Ok(own);
        }
        let mut all = [own, of(connection, &query, Some(""))?].concat();
        all.sort_by_key(|placed| placed.index);
        all.truncate(query.limit);
        Ok(all)
    })
    .await
}

fn of(
    connection: &Connection,
    query: &EntryQuery,
    tenant: Option<&str>,
) -> Result<Vec<Placed>, Error> {
    let mut statement = connection.prepare_cached(&selection(query, tenant))?;
    let found = statement.query_map(
        params![
            rows::position(query.from),
            tenant,
            query.kind.map(EntryKind::name),
            query.call.as_ref().map(|call| call.0.as_bytes()),
            query.session.as_ref().map(SessionId::as_str),
            query.persona.as_ref().map(PersonaId::as_str),
            query.tool.as_ref().map(ToolName::as_str),
            query.since.map(ringfence_types::Timestamp::as_micros),
            query.until.map(ringfence_types::Timestamp::as_micros),
            rows::page(query.limit),
        ],
        placed,
    )?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// One of some texts, so that each is prepared once. A call or a session is found by its own index
/// and is small; a kind that is not calls likewise; all else is read in order.
fn selection(query: &EntryQuery, tenant: Option<&str>) -> String {
    let is_rare = query.kind.is_some_and(|kind| kind != EntryKind::Call);
    let index = match (query.call.is_some() || query.session.is_some(), tenant.is_some()) {
        (true, _) => "INDEXED BY ledger_by_call",
        (false, _) if is_rare => "INDEXED BY ledger_by_kind",
        (false, true) => "INDEXED BY ledger_by_tenant",
        (false, false) => "",
    };
    let columns = columns();
    let mut sql = format!(
        "SELECT {columns} FROM ledger {index} LEFT JOIN calls ON calls.seq = ledger.call
         WHERE ledger.position > ?1"
    );
    let mut when = |is_given: bool, filter: &str, number: usize| match is_given {
        true => sql += &format!(" AND {filter}"),
        false => sql += &format!(" AND ?{number} IS NULL"),
    };
    when(tenant.is_some(), "ledger.tenant = ?2", 2);
    let kind =
        if is_rare { "ledger.kind = ?3 AND ledger.kind <> 'call'" } else { "ledger.kind = ?3" };
    when(query.kind.is_some(), kind, 3);
    let call = "ledger.call = (SELECT seq FROM calls WHERE id = ?4)";
    when(query.call.is_some(), call, 4);
    let session = "ledger.call IN (SELECT seq FROM calls WHERE tenant = ?2 AND session = ?5)";
    when(query.session.is_some(), session, 5);
    when(query.persona.is_some(), "ledger.persona = ?6", 6);
    when(query.tool.is_some(), "ledger.tool = ?7", 7);
    when(query.since.is_some(), "ledger.at >= ?8", 8);
    when(query.until.is_some(), "ledger.at < ?9", 9);
    sql + " ORDER BY ledger.position LIMIT ?10"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(connection: &Connection, sql: &str) -> String {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps = statement
            .query_map([rusqlite::types::Null; 10], |row| row.get::<_, String>(3))
            .unwrap();
        steps.collect::<Result<Vec<_>, _>>().unwrap().join("; ")
    }

    #[test]
    fn every_filter_has_an_index_and_only_what_is_small_is_sorted() {
        let connection = Connection::open_in_memory().unwrap();
        super::super::MIGRATIONS.iter().for_each(|sql| connection.execute_batch(sql).unwrap());
        let all = EntryQuery::default();
        let call = Some("019a8b7c-1234-7abc-8def-0123456789ab".parse().unwrap());
        let cases = [
            (EntryQuery { call, ..all.clone() }, "ledger_by_call", true),
            (
                EntryQuery { session: Some("s".parse().unwrap()), ..all.clone() },
                "ledger_by_call",
                true,
            ),
            (EntryQuery { kind: Some(EntryKind::Tool), ..all.clone() }, "ledger_by_kind", false),
            (EntryQuery { kind: Some(EntryKind::Call), ..all.clone() }, "ledger_by_tenant", false),
            (all.clone(), "ledger_by_tenant", false),
        ];
        for (query, index, may_sort) in cases {
            let plan = plan(&connection, &selection(&query, Some("t")));
            assert!(plan.contains(&format!("INDEX {index} ")), "{query:?}: {plan}");
            assert!(may_sort || !plan.contains("B-TREE"), "{query:?}: {plan}");
            assert!(!plan.contains("SCAN"), "{query:?}: {plan}");
        }
        let plan = plan(&connection, &selection(&all, None));
        assert!(plan.contains("INTEGER PRIMARY KEY") && !plan.contains("B-TREE"), "{plan}");
    }

    #[test]
    fn a_session_is_always_somebodys() {
        let query = EntryQuery { session: Some("s".parse().unwrap()), ..EntryQuery::default() };
        // Without a tenant the text compares with nothing, and finds nothing.
        assert!(selection(&query, None).contains("tenant = ?2 AND session"));
    }

    #[test]
    fn the_tenant_of_the_server_is_no_tenant() {
        assert!("".parse::<ringfence_types::TenantId>().is_err());
    }
}
