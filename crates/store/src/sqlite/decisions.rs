//! Decisions of policy: writing and finding them.

use ringfence_sqlite::{Connection, Db};
use ringfence_types::{CallId, TenantId, Timestamp};
use rusqlite::{OptionalExtension as _, params};

use super::{
    record::INSERT,
    rows,
    slices::{Bounds, SLICE, visit},
};
use crate::{
    DECISION_BYTES, DecisionQuery, Error, KeptDecision, NewDecision, PAGE, encoding::DecisionText,
};

/// Adds a record of a decision alone, which is no step of a call.
pub(super) fn insert(
    connection: &Connection,
    decision: &DecisionText,
    tenant: &TenantId,
    call: Option<i64>,
) -> Result<i64, Error> {
    let packed = decision.alone()?;
    let row = params![call, 0, tenant.as_str(), decision.at, packed.body, packed.large];
    Ok(connection.prepare_cached(INSERT)?.insert(row)?)
}

pub(super) async fn add(
    db: &Db,
    tenant: &TenantId,
    tool: &str,
    call: CallId,
    new: &NewDecision,
) -> Result<u64, Error> {
    let (tenant, tool, row) = (tenant.clone(), tool.to_owned(), DecisionText::of(new)?);
    let id = db.write(move |connection| -> Result<i64, Error> {
        let position = insert(connection, &row, &tenant, None)?;
        connection
            .prepare_cached("INSERT INTO actions (position, id, tool) VALUES (?1, ?2, ?3)")?
            .execute(params![position, call.0.as_bytes(), tool])?;
        Ok(position)
    });
    id.await.map(i64::cast_unsigned)
}

/// Columns of every query, in the order that [`kept`] reads.
const KEPT: &str = "SELECT records.position, coalesce(calls.id, actions.id), records.decided_at, \
    records.tenant, coalesce(calls.tool, actions.tool), records.body, records.large FROM records \
    LEFT JOIN calls ON calls.seq = records.call \
    LEFT JOIN actions ON actions.position = records.position";

fn kept(row: &rusqlite::Row<'_>) -> rusqlite::Result<KeptDecision> {
    let at = Timestamp::from_micros(row.get(2)?);
    let kept = rows::texts(row, 5)?.decision(at).map_err(|error| rows::undecodable(5, error))?;
    Ok(KeptDecision {
        id: row.get::<_, i64>(0)?.cast_unsigned(),
        call: CallId(rows::uuid(row, 1)?),
        tenant: rows::name(row, 3)?,
        tool: row.get(4)?,
        kept,
    })
}

/// Reads of every tenant are the operator's.
fn lane(tenant: Option<&TenantId>) -> String {
    tenant.map_or(String::new(), ToString::to_string)
}

pub(super) async fn one(
    db: &Db,
    tenant: Option<&TenantId>,
    id: u64,
) -> Result<Option<KeptDecision>, Error> {
    let (tenant, lane) = (tenant.cloned(), lane(tenant));
    db.read_for(&lane, move |connection| {
        let sql = format!(
            "{KEPT} WHERE records.position = ?1 AND records.decided_at IS NOT NULL
             AND (?2 IS NULL OR records.tenant = ?2)"
        );
        let tenant = tenant.as_ref().map(TenantId::as_str);
        let mut statement = connection.prepare_cached(&sql)?;
        Ok(statement.query_row(params![rows::position(id), tenant], kept).optional()?)
    })
    .await
}

pub(super) async fn of_call(
    db: &Db,
    tenant: Option<&TenantId>,
    call: CallId,
) -> Result<Vec<KeptDecision>, Error> {
    let (tenant, lane) = (tenant.cloned(), lane(tenant));
    db.read_for(&lane, move |connection| {
        let sql = format!(
            "{KEPT} WHERE records.decided_at IS NOT NULL AND (?2 IS NULL OR records.tenant = ?2)
             AND records.position IN (
                 SELECT position FROM records INDEXED BY records_by_call
                 WHERE call = (SELECT seq FROM calls WHERE id = ?1)
                 UNION ALL SELECT position FROM actions WHERE id = ?1)
             ORDER BY records.position LIMIT ?3"
        );
        let tenant = tenant.as_ref().map(TenantId::as_str);
        let mut statement = connection.prepare_cached(&sql)?;
        bounded(statement.query(params![call.0.as_bytes(), tenant, rows::page(PAGE)])?)
    })
    .await
}

/// By time and then by name, which is the order of the index: the key, and whether it matches.
const BY_TIME: &str = "SELECT decided_at, (?4 IS NULL OR tenant = ?4) AND (?5 IS NULL OR ?5 =
    coalesce((SELECT tool FROM calls WHERE seq = records.call),
             (SELECT tool FROM actions WHERE actions.position = records.position))), position
    FROM records INDEXED BY records_by_decision
    WHERE (decided_at, position) > (?1, ?2) AND decided_at < ?3 AND decided_at IS NOT NULL
    ORDER BY decided_at, position";

/// Slice by slice, each a read of its own, until something is found: only an empty answer says that
/// there are no more.
pub(super) async fn list(db: &Db, mut query: DecisionQuery) -> Result<Vec<KeptDecision>, Error> {
    let lane = lane(query.tenant.as_ref());
    loop {
        let wanted = query.clone();
        let (found, next) =
            db.read_for(&lane, move |connection| page(connection, &wanted, SLICE)).await?;
        match next {
            Some((at, id)) if found.is_empty() => {
                query.after = Some((Timestamp::from_micros(at), id.cast_unsigned()));
            }
            _ => return Ok(found),
        }
    }
}

/// Time and name.
type Key = (i64, i64);

fn page(
    connection: &Connection,
    query: &DecisionQuery,
    visited: usize,
) -> Result<(Vec<KeptDecision>, Option<Key>), Error> {
    let (since, id) = beginning(query);
    let until = query.until.map_or(i64::MAX, Timestamp::as_micros);
    let tenant = query.tenant.as_ref().map(TenantId::as_str);
    let mut statement = connection.prepare_cached(BY_TIME)?;
    let rows = statement.query(params![since, id, until, tenant, query.tool])?;
    let bounds = Bounds { found: query.limit.min(PAGE), visited };
    let slice = visit(rows, bounds, |row| Ok((row.get(0)?, row.get(2)?)))?;
    let mut one = connection.prepare_cached(&format!("{KEPT} WHERE records.position = ?1"))?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    for (_, id) in slice.keys {
        let decision = one.query_row([id], kept)?;
        bytes += decision.kept.input.len();
        found.push(decision);
        if bytes >= DECISION_BYTES {
            break;
        }
    }
    Ok((found, slice.next))
}

/// Position before the first decision that is asked for.
fn beginning(query: &DecisionQuery) -> (i64, i64) {
    let since = query.since.map_or(i64::MIN, Timestamp::as_micros);
    // No name is smaller than the first.
    let first = (since, 0);
    match query.after {
        Some((at, id)) => first.max((at.as_micros(), rows::position(id))),
        None => first,
    }
}

/// Rows until there is enough of them.
fn bounded(mut rows: rusqlite::Rows<'_>) -> Result<Vec<KeptDecision>, Error> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let decision = kept(row)?;
        bytes += decision.kept.input.len();
        found.push(decision);
        if bytes >= DECISION_BYTES {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn following_by_time_needs_no_scan_and_no_sort() {
        let connection = Connection::open_in_memory().unwrap();
        for script in super::super::MIGRATIONS {
            connection.execute_batch(script).unwrap();
        }
        let sql = format!("EXPLAIN QUERY PLAN {BY_TIME}");
        let mut statement = connection.prepare(&sql).unwrap();
        let steps = statement.query_map([rusqlite::types::Null; 5], |row| row.get::<_, String>(3));
        let plan = steps.unwrap().collect::<Result<Vec<_>, _>>().unwrap().join("; ");
        assert!(plan.contains("INDEX records_by_decision "), "{plan}");
        assert!(!plan.contains("SCAN") && !plan.contains("B-TREE"), "{plan}");
    }
}
