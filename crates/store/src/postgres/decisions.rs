//! Decisions of policy, found again. They are written by a batch.

use ringfence_types::{CallId, TenantId, Timestamp};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    pool::Pool,
    rows,
    slices::{rows_to_visit, visit},
};
use crate::{
    DECISION_BYTES, DecisionQuery, Error, KeptDecision, PAGE,
    encoding::{Undecodable, page, position},
};

/// Columns of every query, in the order that [`kept`] reads.
const KEPT: &str = "SELECT records.position, coalesce(calls.id, actions.id), records.decided_at, \
    records.tenant, coalesce(calls.tool, actions.tool), records.body, records.large FROM records \
    LEFT JOIN calls ON calls.seq = records.call \
    LEFT JOIN actions ON actions.position = records.position";

fn kept(row: &Row) -> Result<KeptDecision, Undecodable> {
    Ok(KeptDecision {
        id: rows::unsigned(row, 0)?,
        call: CallId(row.try_get::<_, Uuid>(1)?),
        tenant: rows::name(row, 3)?,
        tool: row.try_get(4)?,
        kept: rows::texts(row, 5)?.decision(rows::timestamp(row, 2)?)?,
    })
}

pub(super) async fn one(
    pool: &Pool,
    tenant: Option<&TenantId>,
    id: u64,
) -> Result<Option<KeptDecision>, Error> {
    let tenant = tenant.map(TenantId::as_str);
    let link = &*pool.read_for(tenant.unwrap_or_default()).await?;
    let sql = format!(
        "{KEPT} WHERE records.position = $1 AND records.decided_at IS NOT NULL
             AND ($2::text IS NULL OR records.tenant = $2)"
    );
    let row = link.first(&sql, &[&position(id), &tenant]).await?;
    row.map(|row| rows::whole(&row, ("records", 0), kept)).transpose()
}

pub(super) async fn of_call(
    pool: &Pool,
    tenant: Option<&TenantId>,
    call: CallId,
) -> Result<Vec<KeptDecision>, Error> {
    let tenant = tenant.map(TenantId::as_str);
    let link = &*pool.read_for(tenant.unwrap_or_default()).await?;
    let sql = format!(
        "{KEPT} WHERE records.decided_at IS NOT NULL
             AND ($2::text IS NULL OR records.tenant = $2)
             AND records.position IN (
                 SELECT position FROM records
                 WHERE call = (SELECT seq FROM calls WHERE id = $1)
                 UNION ALL SELECT position FROM actions WHERE id = $1)
             ORDER BY records.position LIMIT $3"
    );
    bounded(&link.query(&sql, &[&call.0, &tenant, &page(PAGE)]).await?)
}

/// By time and then by position, which is the order of the index: the key, and whether it matches.
const BY_TIME: &str = "SELECT decided_at, ($4::text IS NULL OR tenant = $4) AND ($5::text IS NULL
    OR $5 = coalesce((SELECT tool FROM calls WHERE seq = records.call),
                     (SELECT tool FROM actions WHERE actions.position = records.position), '')), position
    FROM records
    WHERE (decided_at, position) > ($1, $2) AND decided_at < $3 AND decided_at IS NOT NULL
    ORDER BY decided_at, position LIMIT $6";

/// Slice by slice, each a read of its own, until something is found: only an empty answer says that there
/// are no more.
pub(super) async fn list(
    pool: &Pool,
    mut query: DecisionQuery,
) -> Result<Vec<KeptDecision>, Error> {
    let limit = query.limit.min(PAGE);
    let has_nul = query.tool.as_ref().is_some_and(|tool| tool.contains('\0'));
    if limit == 0 || has_nul {
        return Ok(Vec::new());
    }
    loop {
        let (found, next) = slice(pool, &query, limit).await?;
        match next {
            Some(next) if found.is_empty() => query.after = Some(next),
            _ => return Ok(found),
        }
    }
}

async fn slice(
    pool: &Pool,
    query: &DecisionQuery,
    limit: usize,
) -> Result<(Vec<KeptDecision>, Option<(Timestamp, u64)>), Error> {
    let tenant = query.tenant.as_ref().map(TenantId::as_str);
    let has_filters = tenant.is_some() || query.tool.is_some();
    let link = &*pool.read_for(tenant.unwrap_or_default()).await?;
    let (since, id) = beginning(query);
    let until = query.until.map_or(i64::MAX, Timestamp::as_micros);
    let asked = rows_to_visit(limit, has_filters);
    let found = link.query(BY_TIME, &[&since, &id, &until, &tenant, &query.tool, &asked]).await?;
    let key = |row: &Row| -> Result<_, Undecodable> { Ok((row.try_get(0)?, row.try_get(2)?)) };
    let slice = visit::<(i64, i64)>(&found, (limit, asked), key)?;
    let ids: Vec<i64> = slice.keys.iter().map(|(_, id)| *id).collect();
    let order = "ORDER BY records.decided_at, records.position";
    let sql = format!("{KEPT} WHERE records.position = ANY($1) {order}");
    let found = bounded(&link.query(&sql, &[&ids]).await?)?;
    let next = slice.next.map(|(at, id)| (Timestamp::from_micros(at), id.cast_unsigned()));
    Ok((found, next))
}

/// Key before the first that is asked for.
fn beginning(query: &DecisionQuery) -> (i64, i64) {
    let since = query.since.map_or(i64::MIN, Timestamp::as_micros);
    // No position is smaller than the first.
    let first = (since, 0);
    match query.after {
        Some((at, id)) => first.max((at.as_micros(), position(id))),
        None => first,
    }
}

/// Decisions until there are enough bytes of them.
fn bounded(rows: &[Row]) -> Result<Vec<KeptDecision>, Error> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    for row in rows {
        let decision = rows::whole(row, ("records", 0), kept)?;
        bytes += decision.kept.input.len();
        found.push(decision);
        if bytes >= DECISION_BYTES {
            break;
        }
    }
    Ok(found)
}
