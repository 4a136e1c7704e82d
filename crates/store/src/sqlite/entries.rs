//! Finding entries of the ledger.

use ringfence_sqlite::{Connection, Db};
use ringfence_types::{EntryKind, PersonaId, SessionId, ToolName};
use rusqlite::params;

use super::{
    ledger::{COLUMNS, placed},
    rows,
    slices::{Bounds, SLICE, Slice, visit},
};
use crate::{EntryPage, EntryQuery, Error, PAGE, Placed};

/// Entries for readers inside the server: however many rows that takes.
pub(super) async fn list(db: &Db, query: EntryQuery) -> Result<Vec<Placed>, Error> {
    let lane = lane(&query);
    let read = move |connection: &Connection| page(connection, &query, usize::MAX);
    db.read_for(&lane, read).await.map(|page| page.entries)
}

/// Entries for clients: what a bounded number of rows holds.
pub(super) async fn slice(db: &Db, query: EntryQuery) -> Result<EntryPage, Error> {
    let lane = lane(&query);
    db.read_for(&lane, move |connection| page(connection, &query, SLICE)).await
}

fn lane(query: &EntryQuery) -> String {
    query.tenant.as_ref().map_or(String::new(), ToString::to_string)
}

/// A page of entries. Those of the whole server belong to all tenants, so a tenant's are found in two places.
/// Each is in order; what is beyond the end of a slice of either waits for the next page.
fn page(connection: &Connection, query: &EntryQuery, visited: usize) -> Result<EntryPage, Error> {
    let limit = query.limit.min(PAGE);
    let bounds = Bounds { found: limit, visited };
    let mut slices = Vec::new();
    match &query.tenant {
        None => slices.push(find(connection, query, None, bounds)?),
        Some(tenant) => {
            slices.push(find(connection, query, Some(tenant.as_str()), bounds)?);
            // Nothing of the server's belongs to a session, a persona or a call.
            if query.call.is_none() && query.session.is_none() && query.persona.is_none() {
                slices.push(find(connection, query, Some(""), bounds)?);
            }
        }
    }
    let end = slices.iter().filter_map(|slice| slice.next).min();
    let mut positions: Vec<_> = slices.into_iter().flat_map(|slice| slice.keys).collect();
    positions.retain(|position| end.is_none_or(|end| *position <= end));
    positions.sort_unstable();
    let is_cut = positions.len() > limit;
    positions.truncate(limit);
    let next = if is_cut { positions.last().copied() } else { end };
    let entries = positions.iter().map(|position| one(connection, *position));
    // An index is its position less one, so the position is the index of the entry after it.
    Ok(EntryPage {
        entries: entries.collect::<Result<_, _>>()?,
        next: next.map(i64::cast_unsigned),
    })
}

/// The entry at a position.
fn one(connection: &Connection, position: i64) -> Result<Placed, Error> {
    let sql = format!("{COLUMNS} WHERE ledger.position = ?1");
    // Of evidence nothing is left out: what cannot be read is an error that names it.
    connection
        .prepare_cached(&sql)?
        .query_row([position], |row| Ok(rows::read(row, ("ledger", 0), placed)))?
        .map_err(Error::from)
}

fn find(
    connection: &Connection,
    query: &EntryQuery,
    tenant: Option<&str>,
    bounds: Bounds,
) -> Result<Slice<i64>, Error> {
    let path = Path::of(connection, query, tenant)?;
    let mut statement = connection.prepare_cached(&selection(query, tenant, path))?;
    let rows = statement.query(params![
        rows::position(query.from),
        tenant,
        query.kind.map(EntryKind::name),
        query.call.as_ref().map(|call| call.0.as_bytes()),
        query.session.as_ref().map(SessionId::as_str),
        query.persona.as_ref().map(PersonaId::as_str),
        query.tool.as_ref().map(ToolName::as_str),
        query.since.map(ringfence_types::Timestamp::as_micros),
        query.until.map(ringfence_types::Timestamp::as_micros),
    ])?;
    visit(rows, bounds, |row| row.get(0))
}

/// The index whose rows are visited, in the order of positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Path {
    /// Entries about one call.
    Call,
    /// Entries about the calls of a session that has few: found by call, then sorted.
    Session,
    /// Entries of a kind other than calls.
    Kind,
    /// Entries of a tenant.
    Tenant,
    /// All entries.
    All,
}

/// Most calls of a session whose entries are found call by call.
const FEW_CALLS: usize = 256;

impl Path {
    fn of(
        connection: &Connection,
        query: &EntryQuery,
        tenant: Option<&str>,
    ) -> Result<Self, Error> {
        if query.call.is_some() {
            return Ok(Self::Call);
        }
        if let Some(session) = &query.session
            && has_few_calls(connection, tenant, session)?
        {
            return Ok(Self::Session);
        }
        let is_rare = query.kind.is_some_and(|kind| kind != EntryKind::Call);
        Ok(match (is_rare, tenant.is_some()) {
            (true, _) => Self::Kind,
            (false, true) => Self::Tenant,
            (false, false) => Self::All,
        })
    }

    const fn index(self) -> &'static str {
        match self {
            Self::Call | Self::Session => "INDEXED BY ledger_by_call",
            Self::Kind => "INDEXED BY ledger_by_kind",
            Self::Tenant => "INDEXED BY ledger_by_tenant",
            Self::All => "",
        }
    }
}

fn has_few_calls(
    connection: &Connection,
    tenant: Option<&str>,
    session: &SessionId,
) -> Result<bool, Error> {
    let mut statement = connection.prepare_cached(COUNT_CALLS)?;
    let most = FEW_CALLS as i64 + 1;
    let count: i64 =
        statement.query_row(params![tenant, session.as_str(), most], |row| row.get(0))?;
    Ok(count < most)
}

const COUNT_CALLS: &str = "SELECT count(*) FROM (SELECT 1 FROM calls INDEXED BY calls_by_session
    WHERE tenant = ?1 AND session = ?2 LIMIT ?3)";

/// One of some texts, so that each is prepared once: the position, and whether the entry matches.
/// The subject of the path is a condition; all else is looked at row by row.
fn selection(query: &EntryQuery, tenant: Option<&str>, path: Path) -> String {
    let mut conditions = vec!["ledger.position > ?1"];
    let mut filters = Vec::new();
    if tenant.is_some() {
        conditions.push("ledger.tenant = ?2");
    }
    match path {
        Path::Call => conditions.push("ledger.call = (SELECT seq FROM calls WHERE id = ?4)"),
        Path::Session => conditions
            .push("ledger.call IN (SELECT seq FROM calls WHERE tenant = ?2 AND session = ?5)"),
        Path::Kind => conditions.push("ledger.kind = ?3 AND ledger.kind <> 'call'"),
        Path::Tenant | Path::All => {}
    }
    let mut filter = |is_given: bool, text| filters.extend(is_given.then_some(text));
    filter(query.kind.is_some() && path != Path::Kind, "ledger.kind IS ?3");
    let of_session = "EXISTS (SELECT 1 FROM calls WHERE calls.seq = ledger.call
                      AND calls.tenant = ?2 AND calls.session = ?5)";
    filter(query.session.is_some() && path != Path::Session, of_session);
    filter(query.persona.is_some(), "ledger.persona IS ?6");
    filter(query.tool.is_some(), "ledger.tool IS ?7");
    filter(query.since.is_some(), "ledger.at >= ?8");
    filter(query.until.is_some(), "ledger.at < ?9");
    let matches = if filters.is_empty() { "1".to_owned() } else { filters.join(" AND ") };
    let (index, conditions) = (path.index(), conditions.join(" AND "));
    // Every parameter is bound whatever the text, so every text names the last one.
    format!(
        "SELECT ledger.position, {matches} FROM ledger {index}
         WHERE {conditions} AND ?9 IS ?9 ORDER BY ledger.position"
    )
}

#[cfg(test)]
mod tests {
    use ringfence_types::{About, Digest, Sealed};

    use super::{
        super::ledger::{Kept, insert},
        *,
    };

    fn database() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        super::super::MIGRATIONS.iter().for_each(|sql| connection.execute_batch(sql).unwrap());
        connection
    }

    fn plan(connection: &Connection, sql: &str) -> String {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let nulls = vec![rusqlite::types::Null; statement.parameter_count()];
        let steps = statement
            .query_map(rusqlite::params_from_iter(nulls), |row| row.get::<_, String>(3))
            .unwrap();
        steps.collect::<Result<Vec<_>, _>>().unwrap().join("; ")
    }

    #[test]
    fn every_filter_is_visited_along_an_index_and_only_what_is_small_is_sorted() {
        let connection = database();
        let all = EntryQuery::default();
        let call = Some("019a8b7c-1234-7abc-8def-0123456789ab".parse().unwrap());
        let session = Some("s".parse().unwrap());
        let at = Some(ringfence_types::Timestamp::from_micros(1));
        let cases = [
            (EntryQuery { call, ..all.clone() }, Path::Call, "ledger_by_call", true),
            (
                EntryQuery { session: session.clone(), ..all.clone() },
                Path::Session,
                "ledger_by_call",
                true,
            ),
            (EntryQuery { session, ..all.clone() }, Path::Tenant, "ledger_by_tenant", false),
            (
                EntryQuery { kind: Some(EntryKind::Tool), ..all.clone() },
                Path::Kind,
                "ledger_by_kind",
                false,
            ),
            (
                EntryQuery { kind: Some(EntryKind::Call), ..all.clone() },
                Path::Tenant,
                "ledger_by_tenant",
                false,
            ),
            (
                EntryQuery { persona: Some("p".parse().unwrap()), ..all.clone() },
                Path::Tenant,
                "ledger_by_tenant",
                false,
            ),
            (
                EntryQuery { tool: Some("t".parse().unwrap()), ..all.clone() },
                Path::Tenant,
                "ledger_by_tenant",
                false,
            ),
            (
                EntryQuery { since: at, until: at, ..all.clone() },
                Path::Tenant,
                "ledger_by_tenant",
                false,
            ),
            (all.clone(), Path::Tenant, "ledger_by_tenant", false),
        ];
        for (query, path, index, may_sort) in cases {
            let plan = plan(&connection, &selection(&query, Some("t"), path));
            assert!(plan.contains(&format!("INDEX {index} ")), "{query:?}: {plan}");
            assert!(may_sort || !plan.contains("B-TREE"), "{query:?}: {plan}");
            assert!(!plan.contains("SCAN"), "{query:?}: {plan}");
        }
        let whole = plan(&connection, &selection(&all, None, Path::All));
        assert!(whole.contains("INTEGER PRIMARY KEY") && !whole.contains("B-TREE"), "{whole}");
        let count = plan(&connection, COUNT_CALLS);
        assert!(count.contains("INDEX calls_by_session "), "{count}");
    }

    #[test]
    fn a_session_is_always_somebodys() {
        let query = EntryQuery { session: Some("s".parse().unwrap()), ..EntryQuery::default() };
        // Without a tenant the text compares with nothing, and finds nothing.
        for path in [Path::Session, Path::All] {
            assert!(selection(&query, None, path).contains("tenant = ?2"));
        }
    }

    #[test]
    fn the_tenant_of_the_server_is_no_tenant() {
        assert!("".parse::<ringfence_types::TenantId>().is_err());
    }

    /// Entries of tenants in turn: the server's own, `a` and `b`; each seventh for another persona.
    fn fill(connection: &Connection, count: usize) {
        for number in 0..count {
            let at = ringfence_types::Timestamp::from_micros(number as i64);
            let about = match number % 5 {
                0 => About::server(at),
                1 | 2 => About::tenant("a".parse().unwrap(), at),
                _ => About::tenant("b".parse().unwrap(), at),
            };
            let persona = (number % 5 != 0).then(|| ["p", "q"][usize::from(number % 7 == 0)]);
            let about = About {
                persona: persona.map(|persona| persona.parse().unwrap()),
                tool: (number % 3 != 0).then(|| "t".parse().unwrap()),
                ..about
            };
            let kind = [EntryKind::Call, EntryKind::Decision][usize::from(number % 4 == 0)];
            let sealed = Sealed {
                kind,
                about,
                payload: "{}".to_owned(),
                signature: None,
                signer: Digest::of(b"signer"),
                leaf: Digest::of(&number.to_be_bytes()),
            };
            insert(connection, &sealed, None, Kept::Here).unwrap();
        }
    }

    fn queries() -> Vec<EntryQuery> {
        let all =
            EntryQuery { tenant: Some("a".parse().unwrap()), limit: 4, ..EntryQuery::default() };
        let at = |micros| Some(ringfence_types::Timestamp::from_micros(micros));
        vec![
            all.clone(),
            EntryQuery { persona: Some("q".parse().unwrap()), ..all.clone() },
            EntryQuery { persona: Some("unknown".parse().unwrap()), ..all.clone() },
            EntryQuery { tool: Some("t".parse().unwrap()), ..all.clone() },
            EntryQuery { kind: Some(EntryKind::Decision), ..all.clone() },
            EntryQuery { since: at(40), until: at(90), ..all.clone() },
            EntryQuery { tenant: None, ..all },
        ]
    }

    fn indexes(page: &EntryPage) -> Vec<u64> {
        page.entries.iter().map(|placed| placed.index).collect()
    }

    #[test]
    fn a_reader_of_the_cursors_finds_each_entry_once() {
        let connection = database();
        fill(&connection, 120);
        for query in queries() {
            let whole = EntryQuery { limit: PAGE, ..query.clone() };
            let expected = indexes(&page(&connection, &whole, usize::MAX).unwrap());
            for visited in [1, 2, 3, 7, 1_000] {
                let (mut found, mut from) = (Vec::new(), Some(0));
                while let Some(at) = from {
                    let query = EntryQuery { from: at, ..query.clone() };
                    let page = page(&connection, &query, visited).unwrap();
                    assert!(page.entries.len() <= query.limit);
                    assert!(page.next.is_none_or(|next| next > at), "a cursor goes on");
                    found.extend(indexes(&page));
                    from = page.next;
                }
                assert_eq!(found, expected, "{visited} rows at a time: {query:?}");
            }
        }
    }

    #[test]
    fn a_page_visits_no_more_rows_than_it_may_however_long_the_ledger_is() {
        let connection = database();
        fill(&connection, 500);
        let wanted = EntryQuery {
            tenant: Some("a".parse().unwrap()),
            persona: Some("unknown".parse().unwrap()),
            limit: 50,
            ..EntryQuery::default()
        };
        let bounds = Bounds { found: 50, visited: 20 };
        let slice = find(&connection, &wanted, Some("a"), bounds).unwrap();
        assert_eq!((slice.visited, slice.keys.len()), (20, 0));
        // A page of the same bound is empty and says where to go on.
        let first = page(&connection, &wanted, 20).unwrap();
        assert_eq!((first.entries.len(), first.next), (0, slice.next.map(i64::cast_unsigned)));
        // The control: without a bound all of the tenant's entries are visited.
        let bounds = Bounds { found: 50, visited: usize::MAX };
        assert_eq!(find(&connection, &wanted, Some("a"), bounds).unwrap().visited, 200);
    }
}
