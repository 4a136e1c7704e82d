//! Plans and their events.

use ringfence_types::{Json, KeyId, PlanId, TenantId, Timestamp};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{Shared, rows};
use crate::{
    Error, PlanEvent, PlanQuery, PlanRow, PlanSummary,
    encoding::{Undecodable, page, position},
};

const COLUMNS: &str = "plans.id, plans.tenant, plans.key, plans.persona, plans.status, plans.open,
    plans.goal, plans.document, plans.state, plans.created_at, plans.changed_at, plans.version,
    plans.owner";

/// Events of one change, numbered after those that the plan has. The row of the plan is locked by then.
const APPEND: &str = "INSERT INTO plan_events (plan, number, at, kind, payload)
    SELECT $1, (SELECT coalesce(max(number), 0) FROM plan_events WHERE plan = $1) + new.nth,
           new.at, new.kind, new.payload
    FROM changed, unnest($2::bigint[], $3::text[], $4::text[]) WITH ORDINALITY AS new (at, kind, payload, nth)";

/// Columns of new events.
struct NewEvents<'a> {
    at: Vec<i64>,
    kinds: Vec<&'a str>,
    payloads: Vec<&'a str>,
}

impl<'a> NewEvents<'a> {
    fn of(events: &'a [PlanEvent]) -> Self {
        Self {
            at: events.iter().map(|event| event.at.as_micros()).collect(),
            kinds: events.iter().map(|event| event.kind.as_str()).collect(),
            payloads: events.iter().map(|event| event.payload.as_str()).collect(),
        }
    }
}

/// Adds a plan with its first events.
pub(super) async fn add(
    shared: &Shared,
    plan: PlanRow,
    events: Vec<PlanEvent>,
) -> Result<(), Error> {
    rows::check_text(&plan.goal)?;
    let link = &*shared.pool.read().await?;
    let sql = "INSERT INTO plans (id, tenant, key, persona, status, open, goal, document, state,
               created_at, changed_at, version) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 1)";
    let new = NewEvents::of(&events);
    let sql = format!(
        "WITH changed AS ({sql} RETURNING id)
         INSERT INTO plan_events (plan, number, at, kind, payload)
         SELECT changed.id, new.nth, new.at, new.kind, new.payload
         FROM changed, unnest($12::bigint[], $13::text[], $14::text[])
              WITH ORDINALITY AS new (at, kind, payload, nth)"
    );
    let persona = plan.persona.as_ref().map(|persona| persona.as_str());
    link.execute(
        &sql,
        &[
            &plan.id.0,
            &plan.tenant.as_str(),
            &plan.key.0,
            &persona,
            &plan.status,
            &plan.is_open,
            &plan.goal,
            &plan.document.as_str(),
            &plan.state.as_str(),
            &plan.created_at.as_micros(),
            &plan.changed_at.as_micros(),
            &new.at,
            &new.kinds,
            &new.payloads,
        ],
    )
    .await?;
    Ok(())
}

/// One plan of a tenant.
pub(super) async fn one(
    shared: &Shared,
    tenant: &TenantId,
    id: PlanId,
) -> Result<Option<PlanRow>, Error> {
    let link = &*shared.pool.read_for(tenant.as_str()).await?;
    let sql = format!("SELECT {COLUMNS} FROM plans WHERE id = $1 AND tenant = $2");
    let found = link.query(&sql, &[&id.0, &tenant.as_str()]).await?;
    found.first().map(|row| whole(row, shared.process())).transpose()
}

/// Plans of a tenant, newest first.
pub(super) async fn list(shared: &Shared, query: PlanQuery) -> Result<Vec<PlanSummary>, Error> {
    if query.status.as_ref().is_some_and(|status| status.contains('\0')) {
        return Ok(Vec::new());
    }
    let link = &*shared.pool.read_for(query.tenant.as_str()).await?;
    let sql = "SELECT id, status, goal, created_at, changed_at FROM plans
               WHERE tenant = $1 AND id < $2 AND ($3::text IS NULL OR status = $3)
               ORDER BY id DESC LIMIT $4";
    let before = query.before.map_or(Uuid::max(), |id| id.0);
    let (tenant, limit) = (query.tenant.as_str(), page(query.limit));
    let found = link.query(sql, &[&tenant, &before, &query.status, &limit]).await?;
    let summary = |row: &Row| {
        Ok::<_, Error>(PlanSummary {
            id: PlanId(row.try_get(0)?),
            status: row.try_get(1)?,
            goal: row.try_get(2)?,
            created_at: Timestamp::from_micros(row.try_get(3)?),
            changed_at: Timestamp::from_micros(row.try_get(4)?),
        })
    };
    found.iter().map(summary).collect()
}

/// Writes a plan over the version that was read.
pub(super) async fn update(
    shared: &Shared,
    plan: PlanRow,
    events: Vec<PlanEvent>,
) -> Result<bool, Error> {
    rows::check_text(&plan.goal)?;
    let link = &*shared.pool.read().await?;
    let new = NewEvents::of(&events);
    let sql = format!(
        "WITH changed AS (
             UPDATE plans SET status = $7, open = $8, goal = $9, document = $10, state = $11,
                 changed_at = $12, version = version + 1, owner = CASE WHEN $8 THEN owner END
             WHERE id = $1 AND tenant = $5 AND version = $6 RETURNING id
         ), added AS ({APPEND})
         SELECT id FROM changed"
    );
    let changed = link
        .query(
            &sql,
            &[
                &plan.id.0,
                &new.at,
                &new.kinds,
                &new.payloads,
                &plan.tenant.as_str(),
                &position(plan.version),
                &plan.status,
                &plan.is_open,
                &plan.goal,
                &plan.document.as_str(),
                &plan.state.as_str(),
                &plan.changed_at.as_micros(),
            ],
        )
        .await?;
    Ok(!changed.is_empty())
}

/// Events of a plan after a number.
pub(super) async fn events(
    shared: &Shared,
    tenant: &TenantId,
    id: PlanId,
    after: u64,
    limit: usize,
) -> Result<Vec<(u64, PlanEvent)>, Error> {
    let link = &*shared.pool.read_for(tenant.as_str()).await?;
    let sql = "SELECT number, at, kind, payload FROM plan_events
               WHERE plan = $1 AND number > $2
                 AND EXISTS (SELECT 1 FROM plans WHERE id = $1 AND tenant = $3)
               ORDER BY number LIMIT $4";
    let asked: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&id.0, &position(after), &tenant.as_str(), &page(limit)];
    let found = link.query(sql, &asked).await?;
    let event = |row: &Row| {
        let number: i64 = row.try_get(0)?;
        let read = || -> Result<PlanEvent, Undecodable> {
            Ok(PlanEvent {
                at: Timestamp::from_micros(row.try_get(1)?),
                kind: row.try_get(2)?,
                payload: rows::parsed::<Json>(row, 3)?,
            })
        };
        let event = rows::whole(row, ("plan_events", 0), |_| read())?;
        Ok::<_, Error>((number.cast_unsigned(), event))
    };
    found.iter().map(event).collect()
}

/// Makes this process the driver of open plans that no living process drives. Of two processes that ask at
/// the same time, one gets a plan.
pub(super) async fn claim(shared: &Shared, limit: usize) -> Result<Vec<PlanRow>, Error> {
    let process = shared.process();
    let link = &*shared.pool.read().await?;
    let sql = format!(
        "UPDATE plans SET owner = $1, version = version + 1 WHERE id IN
         (SELECT id FROM plans WHERE open AND (owner IS NULL OR (owner <> $1 AND NOT EXISTS
              (SELECT 1 FROM processes WHERE processes.id = plans.owner AND NOT processes.dead
                  AND processes.ends_at >= now())))
          ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)
         RETURNING {COLUMNS}"
    );
    let found = link.query(&sql, &[&process, &page(limit)]).await?;
    found.iter().map(|row| whole(row, process)).collect()
}

/// Removes a plan that is not open, with its events.
pub(super) async fn remove(shared: &Shared, tenant: &TenantId, id: PlanId) -> Result<bool, Error> {
    let link = &*shared.pool.read().await?;
    let sql = "DELETE FROM plans WHERE id = $1 AND tenant = $2 AND NOT open";
    Ok(link.execute(sql, &[&id.0, &tenant.as_str()]).await? > 0)
}

fn whole(row: &Row, process: i64) -> Result<PlanRow, Error> {
    rows::whole(row, ("plans", 0), |row| plan(row, process))
}

fn plan(row: &Row, process: i64) -> Result<PlanRow, Undecodable> {
    Ok(PlanRow {
        id: PlanId(row.try_get(0)?),
        tenant: rows::name(row, 1)?,
        key: KeyId(row.try_get(2)?),
        persona: rows::name_or_none(row, 3)?,
        status: row.try_get(4)?,
        is_open: row.try_get(5)?,
        goal: row.try_get(6)?,
        document: rows::parsed::<Json>(row, 7)?,
        state: rows::parsed::<Json>(row, 8)?,
        created_at: Timestamp::from_micros(row.try_get(9)?),
        changed_at: Timestamp::from_micros(row.try_get(10)?),
        version: row.try_get::<_, i64>(11)?.cast_unsigned(),
        is_own: row.try_get::<_, Option<i64>>(12)? == Some(process),
    })
}
