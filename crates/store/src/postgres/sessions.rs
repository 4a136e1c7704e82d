//! Events of sessions. They are appended by a batch: their positions are given under the lock of the log.

use ringfence_types::TenantId;
use tokio_postgres::Row;

use super::{pool::Pool, rows};
use crate::{
    Error, SessionEvent, SessionQuery, SessionSummary,
    encoding::{Undecodable, page, position},
};

pub(super) async fn list(
    pool: &Pool,
    query: SessionQuery,
) -> Result<Vec<(u64, SessionEvent)>, Error> {
    let link = &*pool.read_for(query.tenant.as_str()).await?;
    let order = if query.last { "DESC" } else { "ASC" };
    let sql = format!(
        "SELECT position, tenant, session, at, kind, payload FROM session_events
             WHERE tenant = $1 AND session = $2 AND position > $3
             AND ($4::text IS NULL OR kind = $4) ORDER BY position {order} LIMIT $5"
    );
    let (tenant, session) = (query.tenant.as_str(), query.session.as_str());
    let (after, limit) = (position(query.after), page(query.limit));
    let found = link.query(&sql, &[&tenant, &session, &after, &query.kind, &limit]).await?;
    let read = |row: &Row| rows::whole(row, ("session_events", 0), event);
    let mut events = found.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    if query.last {
        events.reverse();
    }
    Ok(events)
}

pub(super) async fn summaries(
    pool: &Pool,
    tenant: &TenantId,
    limit: usize,
) -> Result<Vec<SessionSummary>, Error> {
    let link = &*pool.read_for(tenant.as_str()).await?;
    let sql = "SELECT session, count(*), max(position), min(at), max(at) FROM session_events
             WHERE tenant = $1 AND session <> '' GROUP BY session ORDER BY 3 DESC LIMIT $2";
    let found = link.query(sql, &[&tenant.as_str(), &page(limit)]).await?;
    found.iter().map(|row| rows::whole(row, ("session_events", 2), summary)).collect()
}

fn summary(row: &Row) -> Result<SessionSummary, Undecodable> {
    Ok(SessionSummary {
        session: rows::name(row, 0)?,
        events: rows::unsigned(row, 1)?,
        newest: rows::unsigned(row, 2)?,
        first_at: rows::timestamp(row, 3)?,
        last_at: rows::timestamp(row, 4)?,
    })
}

fn event(row: &Row) -> Result<(u64, SessionEvent), Undecodable> {
    let event = SessionEvent {
        tenant: rows::name(row, 1)?,
        session: rows::name(row, 2)?,
        at: rows::timestamp(row, 3)?,
        kind: row.try_get(4)?,
        payload: rows::parsed(row, 5)?,
    };
    Ok((rows::unsigned(row, 0)?, event))
}
