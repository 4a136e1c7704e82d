//! Activity of a tenant: counts of ended calls.

use ringfence_sqlite::{Connection, Db};
use ringfence_types::Call;
use rusqlite::{Row, params};

use crate::{
    ActivityQuery, ActivityRow, EndedCall, Ending, Error, TimeClass,
    activity::{KEPT_SLOTS, is_pruning},
};

/// Adds a call, if this step ends it.
pub(super) fn add(connection: &Connection, call: &Call) -> Result<(), Error> {
    let Some(EndedCall { slot, ending, class }) = EndedCall::of(call) else { return Ok(()) };
    let tenant = call.asked.tenant.as_str();
    connection
        .prepare_cached(
            "INSERT INTO activity (tenant, slot, ending, class, calls) VALUES (?1, ?2, ?3, ?4, 1)
             ON CONFLICT (tenant, slot, ending, class) DO UPDATE SET calls = calls + 1",
        )?
        .execute(params![tenant, slot, ending.number(), TimeClass::number(class)])?;
    if is_pruning(slot) {
        connection
            .prepare_cached("DELETE FROM activity WHERE tenant = ?1 AND slot < ?2")?
            .execute(params![tenant, slot - KEPT_SLOTS])?;
    }
    Ok(())
}

/// Counts by step, end and class.
pub(super) async fn list(db: &Db, query: ActivityQuery) -> Result<Vec<ActivityRow>, Error> {
    let lane = query.tenant.clone();
    db.read_for(lane.as_str(), move |connection| {
        let sql = "SELECT (slot - ?2) / ?4, ending, class, sum(calls) FROM activity
                   WHERE tenant = ?1 AND slot >= ?2 AND slot < ?3 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3";
        let ActivityQuery { tenant, from, until, per } = &query;
        let mut statement = connection.prepare_cached(sql)?;
        let found = statement.query_map(params![tenant.as_str(), from, until, (*per).max(1)], row)?;
        let found = found.collect::<Result<Vec<_>, _>>()?;
        Ok(found.into_iter().flatten().collect())
    })
    .await
}

/// The row; none if it is of a kind that this program does not know.
fn row(row: &Row<'_>) -> rusqlite::Result<Option<ActivityRow>> {
    let Some(ending) = Ending::from_number(row.get(1)?) else { return Ok(None) };
    let class = TimeClass::from_number(row.get(2)?);
    let calls = u64::try_from(row.get::<_, i64>(3)?).unwrap_or(0);
    Ok(Some(ActivityRow { ended: EndedCall { slot: row.get(0)?, ending, class }, calls }))
}
