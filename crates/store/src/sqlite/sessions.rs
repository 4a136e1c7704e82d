//! Events of sessions.

use ringfence_sqlite::{Connection, Db};
use ringfence_types::{Json, TenantId};
use rusqlite::{Row, params};

use super::rows;
use crate::{Error, SessionEvent, SessionQuery, SessionSummary};

pub(super) async fn append(db: &Db, event: SessionEvent) -> Result<u64, Error> {
    db.write(move |connection| insert(connection, &event)).await
}

/// Appends within a transaction of the caller's.
pub(super) fn insert(connection: &Connection, event: &SessionEvent) -> Result<u64, Error> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO session_events (tenant, session, at, kind, payload)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let position = statement.insert(params![
        event.tenant.as_str(),
        event.session.as_str(),
        event.at.as_micros(),
        event.kind,
        event.payload.as_str(),
    ])?;
    Ok(position.cast_unsigned())
}

pub(super) async fn list(db: &Db, query: SessionQuery) -> Result<Vec<(u64, SessionEvent)>, Error> {
    let lane = query.tenant.clone();
    db.read_for(lane.as_str(), move |connection| {
        let order = if query.last { "DESC" } else { "ASC" };
        let mut statement = connection.prepare_cached(&format!(
            "SELECT position, tenant, session, at, kind, payload FROM session_events
             WHERE tenant = ?1 AND session = ?2 AND position > ?3 AND (?4 IS NULL OR kind = ?4)
             ORDER BY position {order} LIMIT ?5"
        ))?;
        let found = statement.query_map(
            params![
                query.tenant.as_str(),
                query.session.as_str(),
                rows::position(query.after),
                query.kind,
                rows::page(query.limit),
            ],
            event,
        )?;
        let mut events = found.collect::<Result<Vec<_>, _>>()?;
        if query.last {
            events.reverse();
        }
        Ok(events)
    })
    .await
}

pub(super) async fn summaries(
    db: &Db,
    tenant: TenantId,
    limit: usize,
) -> Result<Vec<SessionSummary>, Error> {
    let lane = tenant.clone();
    db.read_for(lane.as_str(), move |connection| {
        let mut statement = connection.prepare_cached(
            "SELECT session, count(*), max(position), min(at), max(at) FROM session_events
             WHERE tenant = ?1 AND session <> '' GROUP BY session ORDER BY 3 DESC LIMIT ?2",
        )?;
        let found = statement.query_map(params![tenant.as_str(), rows::page(limit)], summary)?;
        Ok(found.collect::<Result<Vec<_>, _>>()?)
    })
    .await
}

fn summary(row: &Row<'_>) -> rusqlite::Result<SessionSummary> {
    Ok(SessionSummary {
        session: rows::name(row, 0)?,
        events: row.get::<_, i64>(1)?.cast_unsigned(),
        newest: row.get::<_, i64>(2)?.cast_unsigned(),
        first_at: rows::timestamp(row, 3)?,
        last_at: rows::timestamp(row, 4)?,
    })
}

fn event(row: &Row<'_>) -> rusqlite::Result<(u64, SessionEvent)> {
    let payload: Json = rows::parsed(row, 5)?;
    let event = SessionEvent {
        tenant: rows::name(row, 1)?,
        session: rows::name(row, 2)?,
        at: rows::timestamp(row, 3)?,
        kind: row.get(4)?,
        payload,
    };
    Ok((row.get::<_, i64>(0)?.cast_unsigned(), event))
}
