//! Plans and their events.

use ringfence_sqlite::Db;
use ringfence_types::{InvalidId, Json, KeyId, PlanId, TenantId};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use uuid::Uuid;

use super::rows;
use crate::{Error, PlanEvent, PlanQuery, PlanRow, PlanSummary, encoding::position};

const COLUMNS: &str = "id, tenant, key, persona, status, open, goal, document, state, created_at,
    changed_at, version, owner";

/// Adds a plan with its first events.
pub(super) async fn add(db: &Db, plan: PlanRow, events: Vec<PlanEvent>) -> Result<(), Error> {
    db.write(move |connection| {
        let sql = "INSERT INTO plans (id, tenant, key, persona, status, open, goal, document, state,
                   created_at, changed_at, version) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 1)";
        connection.prepare_cached(sql)?.execute(params![
            plan.id.0.as_bytes(),
            plan.tenant.as_str(),
            plan.key.0.as_bytes(),
            plan.persona.as_ref().map(|persona| persona.as_str()),
            plan.status,
            plan.is_open,
            plan.goal,
            plan.document.as_str(),
            plan.state.as_str(),
            plan.created_at.as_micros(),
            plan.changed_at.as_micros(),
        ])?;
        append(connection, plan.id, &events)?;
        Ok(())
    })
    .await
}

fn append(connection: &Connection, plan: PlanId, events: &[PlanEvent]) -> Result<(), Error> {
    let sql = "INSERT INTO plan_events (plan, number, at, kind, payload)
               SELECT ?1, 1 + coalesce((SELECT max(number) FROM plan_events WHERE plan = ?1), 0), ?2, ?3, ?4";
    for event in events {
        let (at, payload) = (event.at.as_micros(), event.payload.as_str());
        connection.prepare_cached(sql)?.execute(params![
            plan.0.as_bytes(),
            at,
            event.kind,
            payload
        ])?;
    }
    Ok(())
}

/// One plan of a tenant.
pub(super) async fn one(
    db: &Db,
    process: i64,
    tenant: &TenantId,
    id: PlanId,
) -> Result<Option<PlanRow>, Error> {
    let owned = tenant.clone();
    db.read_for(tenant.as_str(), move |connection| {
        let sql = format!("SELECT {COLUMNS} FROM plans WHERE id = ?1 AND tenant = ?2");
        let mut statement = connection.prepare_cached(&sql)?;
        let read = |row: &Row<'_>| plan(row, process);
        Ok(statement.query_row(params![id.0.as_bytes(), owned.as_str()], read).optional()?)
    })
    .await
}

/// Plans of a tenant, newest first.
pub(super) async fn list(db: &Db, query: PlanQuery) -> Result<Vec<PlanSummary>, Error> {
    let lane = query.tenant.clone();
    db.read_for(lane.as_str(), move |connection| {
        let sql = "SELECT id, status, goal, created_at, changed_at FROM plans
                   WHERE tenant = ?1 AND id < ?2 AND (?3 IS NULL OR status = ?3)
                   ORDER BY id DESC LIMIT ?4";
        let before = query.before.map_or(Uuid::max(), |id| id.0);
        let mut statement = connection.prepare_cached(sql)?;
        let limit = rows::page(query.limit);
        let found = statement.query_map(
            params![query.tenant.as_str(), before.as_bytes(), query.status, limit],
            |row| {
                Ok(PlanSummary {
                    id: PlanId(rows::uuid(row, 0)?),
                    status: row.get(1)?,
                    goal: row.get(2)?,
                    created_at: rows::timestamp(row, 3)?,
                    changed_at: rows::timestamp(row, 4)?,
                })
            },
        )?;
        Ok(found.collect::<Result<_, _>>()?)
    })
    .await
}

/// Writes a plan over the version that was read.
pub(super) async fn update(db: &Db, plan: PlanRow, events: Vec<PlanEvent>) -> Result<bool, Error> {
    db.write(move |connection| {
        let sql = "UPDATE plans SET status = ?4, open = ?5, goal = ?6, document = ?7, state = ?8,
                   changed_at = ?9, version = version + 1,
                   owner = CASE WHEN ?5 THEN owner ELSE NULL END
                   WHERE id = ?1 AND tenant = ?2 AND version = ?3";
        let changed = connection.prepare_cached(sql)?.execute(params![
            plan.id.0.as_bytes(),
            plan.tenant.as_str(),
            position(plan.version),
            plan.status,
            plan.is_open,
            plan.goal,
            plan.document.as_str(),
            plan.state.as_str(),
            plan.changed_at.as_micros(),
        ])?;
        if changed > 0 {
            append(connection, plan.id, &events)?;
        }
        Ok(changed > 0)
    })
    .await
}

/// Events of a plan after a number.
pub(super) async fn events(
    db: &Db,
    tenant: &TenantId,
    id: PlanId,
    after: u64,
    limit: usize,
) -> Result<Vec<(u64, PlanEvent)>, Error> {
    let owned = tenant.clone();
    db.read_for(tenant.as_str(), move |connection| {
        let sql = "SELECT number, at, kind, payload FROM plan_events
                   WHERE plan = ?1 AND number > ?2
                     AND EXISTS (SELECT 1 FROM plans WHERE id = ?1 AND tenant = ?3)
                   ORDER BY number LIMIT ?4";
        let mut statement = connection.prepare_cached(sql)?;
        let asked = params![id.0.as_bytes(), position(after), owned.as_str(), rows::page(limit)];
        let found = statement.query_map(asked, |row| {
            let event = PlanEvent {
                at: rows::timestamp(row, 1)?,
                kind: row.get(2)?,
                payload: rows::parsed(row, 3)?,
            };
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), event))
        })?;
        Ok(found.collect::<Result<_, _>>()?)
    })
    .await
}

/// Makes this process the driver of open plans: one process at a time has the file, so no other lives.
pub(super) async fn claim(db: &Db, process: i64, limit: usize) -> Result<Vec<PlanRow>, Error> {
    let limit = rows::page(limit);
    // Asked often, and mostly in vain: a write is begun only if there is something to claim.
    let waiting = db.read(move |connection| -> Result<bool, Error> {
        let sql = "SELECT EXISTS (SELECT 1 FROM plans WHERE open AND owner IS NOT ?1)";
        Ok(connection.prepare_cached(sql)?.query_row([process], |row| row.get(0))?)
    });
    if !waiting.await? {
        return Ok(Vec::new());
    }
    db.write(move |connection| {
        let sql = format!(
            "UPDATE plans SET owner = ?1, version = version + 1 WHERE id IN
             (SELECT id FROM plans WHERE open AND owner IS NOT ?1 ORDER BY id LIMIT ?2)
             RETURNING {COLUMNS}"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let found = statement.query_map(params![process, limit], |row| plan(row, process))?;
        Ok(found.collect::<Result<_, _>>()?)
    })
    .await
}

/// Removes a plan that is not open.
pub(super) async fn remove(db: &Db, tenant: &TenantId, id: PlanId) -> Result<bool, Error> {
    let tenant = tenant.clone();
    db.write(move |connection| {
        let sql = "DELETE FROM plans WHERE id = ?1 AND tenant = ?2 AND NOT open";
        let removed =
            connection.prepare_cached(sql)?.execute(params![id.0.as_bytes(), tenant.as_str()])?;
        if removed > 0 {
            connection
                .prepare_cached("DELETE FROM plan_events WHERE plan = ?1")?
                .execute([id.0.as_bytes()])?;
        }
        Ok(removed > 0)
    })
    .await
}

fn plan(row: &Row<'_>, process: i64) -> rusqlite::Result<PlanRow> {
    let persona: Option<String> = row.get(3)?;
    let persona = persona.map(|persona| persona.parse()).transpose();
    Ok(PlanRow {
        id: PlanId(rows::uuid(row, 0)?),
        tenant: rows::name(row, 1)?,
        key: KeyId(rows::uuid(row, 2)?),
        persona: persona.map_err(|error: InvalidId| rows::unreadable(3, error))?,
        status: row.get(4)?,
        is_open: row.get(5)?,
        goal: row.get(6)?,
        document: rows::parsed::<Json>(row, 7)?,
        state: rows::parsed::<Json>(row, 8)?,
        created_at: rows::timestamp(row, 9)?,
        changed_at: rows::timestamp(row, 10)?,
        version: row.get::<_, i64>(11)?.cast_unsigned(),
        is_own: row.get::<_, Option<i64>>(12)? == Some(process),
    })
}
