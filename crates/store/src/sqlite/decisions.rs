//! What policy said, kept and found again.

use ringfence_sqlite::{Connection, Db};
use ringfence_types::{CallId, TenantId, Timestamp};
use rusqlite::{OptionalExtension as _, params};

use super::rows;
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

pub(super) async fn one(
    db: &Db,
    tenant: Option<&TenantId>,
    id: u64,
) -> Result<Option<KeptDecision>, Error> {
    let tenant = tenant.cloned();
    db.read(move |connection| {
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
    let tenant = tenant.cloned();
    db.read(move |connection| {
        let sql =
            format!("{KEPT} WHERE call = ?1 AND (?2 IS NULL OR tenant = ?2) ORDER BY id LIMIT ?3");
        let tenant = tenant.as_ref().map(TenantId::as_str);
        let mut statement = connection.prepare_cached(&sql)?;
        bounded(statement.query(params![call.0.as_bytes(), tenant, rows::page(PAGE)])?)
    })
    .await
}

/// By time and then by name, which is the order of the index.
const BY_TIME: &str = "WHERE (at, id) > (?1, ?2) AND at < ?3
    AND (?4 IS NULL OR tenant = ?4) AND (?5 IS NULL OR tool = ?5) ORDER BY at, id LIMIT ?6";

pub(super) async fn list(db: &Db, query: DecisionQuery) -> Result<Vec<KeptDecision>, Error> {
    db.read(move |connection| {
        let (since, id) = beginning(&query);
        let until = query.until.map_or(i64::MAX, Timestamp::as_micros);
        let mut statement = connection.prepare_cached(&format!("{KEPT} {BY_TIME}"))?;
        bounded(statement.query(params![
            since,
            id,
            until,
            query.tenant.as_ref().map(TenantId::as_str),
            query.tool,
            rows::page(query.limit)
        ])?)
    })
    .await
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
        let sql = format!("EXPLAIN QUERY PLAN {KEPT} {BY_TIME}");
        let mut statement = connection.prepare(&sql).unwrap();
        let steps = statement.query_map([rusqlite::types::Null; 6], |row| row.get::<_, String>(3));
        let plan = steps.unwrap().collect::<Result<Vec<_>, _>>().unwrap().join("; ");
        assert!(plan.contains("INDEX decisions_by_time "), "{plan}");
        assert!(!plan.contains("SCAN") && !plan.contains("B-TREE"), "{plan}");
    }
}
