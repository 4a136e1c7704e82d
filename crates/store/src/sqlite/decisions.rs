//! What policy said, kept and found again.

use ringfence_sqlite::{Connection, Db};
use ringfence_types::{CallId, TenantId, Timestamp};
use rusqlite::{OptionalExtension as _, params};

use super::{
    rows,
    slices::{Bounds, SLICE, visit},
};
use crate::{DECISION_BYTES, DecisionQuery, Error, KeptDecision, NewDecision, PAGE};

/// A decision, ready to be bound.
pub(super) struct Row {
    at: i64,
    decision: String,
    input: String,
}

impl Row {
    pub(super) fn of(new: &NewDecision) -> Result<Self, Error> {
        let decision = rows::json(&new.decision)?;
        Ok(Self { at: new.at.as_micros(), decision, input: new.input.clone() })
    }

    /// Bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        self.decision.len() + self.input.len()
    }

    pub(super) fn insert(
        &self,
        connection: &Connection,
        tenant: &TenantId,
        tool: &str,
        call: CallId,
    ) -> Result<i64, Error> {
        let id = connection
            .prepare_cached(
                "INSERT INTO decisions (call, at, tenant, tool, decision, input)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .insert(params![
                call.0.as_bytes(),
                self.at,
                tenant.as_str(),
                tool,
                self.decision,
                self.input
            ])?;
        Ok(id)
    }
}

pub(super) async fn add(
    db: &Db,
    tenant: &TenantId,
    tool: &str,
    call: CallId,
    new: &NewDecision,
) -> Result<u64, Error> {
    let (tenant, tool, row) = (tenant.clone(), tool.to_owned(), Row::of(new)?);
    let id = db.write(move |connection| row.insert(connection, &tenant, &tool, call)).await?;
    Ok(id.cast_unsigned())
}

/// Columns of every query, in the order that [`kept`] reads.
const KEPT: &str = "SELECT id, call, at, tenant, tool, decision, input FROM decisions";

fn kept(row: &rusqlite::Row<'_>) -> rusqlite::Result<KeptDecision> {
    let kept = NewDecision {
        at: Timestamp::from_micros(row.get(2)?),
        decision: rows::parsed(row, 5)?,
        input: row.get(6)?,
    };
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
        let sql = format!("{KEPT} WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)");
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
        let sql =
            format!("{KEPT} WHERE call = ?1 AND (?2 IS NULL OR tenant = ?2) ORDER BY id LIMIT ?3");
        let tenant = tenant.as_ref().map(TenantId::as_str);
        let mut statement = connection.prepare_cached(&sql)?;
        bounded(statement.query(params![call.0.as_bytes(), tenant, rows::page(PAGE)])?)
    })
    .await
}

/// By time and then by name, which is the order of the index: the key, and whether it matches.
const BY_TIME: &str = "SELECT at, (?4 IS NULL OR tenant = ?4) AND (?5 IS NULL OR tool = ?5), id
    FROM decisions INDEXED BY decisions_by_time
    WHERE (at, id) > (?1, ?2) AND at < ?3 ORDER BY at, id";

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
    let mut one = connection.prepare_cached(&format!("{KEPT} WHERE id = ?1"))?;
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

/// What comes before the first that is asked for.
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
        assert!(plan.contains("INDEX decisions_by_time "), "{plan}");
        assert!(!plan.contains("SCAN") && !plan.contains("B-TREE"), "{plan}");
    }
}
