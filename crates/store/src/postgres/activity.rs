//! Activity of a tenant: counts of ended calls. They are added up by a batch.

use std::collections::BTreeMap;

use futures_util::future::join;
use ringfence_types::Call;
use tokio_postgres::Row;

use super::{
    connect::{DbError, Link, Params},
    pool::Pool,
    rows,
};
use crate::{
    ActivityQuery, ActivityRow, EndedCall, Ending, Error, TimeClass,
    activity::{KEPT_SLOTS, is_pruning},
    encoding::Undecodable,
};

/// Adds counts; under the lock of the log, so that two processes never wait for each other's rows.
pub(super) const ADD: &str = "INSERT INTO activity (tenant, slot, ending, class, calls)
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
    ON CONFLICT (tenant, slot, ending, class) DO UPDATE SET calls = activity.calls + excluded.calls";

pub(super) const PRUNE: &str = "DELETE FROM activity WHERE tenant = ANY($1) AND slot < $2";

/// Counts of the calls that end in a batch.
#[derive(Debug, Default)]
pub(super) struct Counts<'a>(BTreeMap<(&'a str, EndedCall), i64>);

impl<'a> Counts<'a> {
    /// Adds a call, if this step ends it.
    pub(super) fn add(&mut self, call: &'a Call) {
        if let Some(ended) = EndedCall::of(call) {
            *self.0.entry((call.asked.tenant.as_str(), ended)).or_default() += 1;
        }
    }

    pub(super) async fn write(&self, link: &Link) -> Result<(), DbError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let tenants: Vec<_> = self.0.keys().map(|(tenant, _)| *tenant).collect();
        let column =
            |of: fn(&EndedCall) -> i64| -> Vec<i64> { self.0.keys().map(|(_, e)| of(e)).collect() };
        let slots = column(|ended| ended.slot);
        let endings = column(|ended| ended.ending.number());
        let classes = column(|ended| TimeClass::number(ended.class));
        let calls: Vec<_> = self.0.values().copied().collect();
        // Both are sent at once: the commit is already behind them.
        let counts: Params<'_> = &[&tenants, &slots, &endings, &classes, &calls];
        let added = link.execute(ADD, counts);
        let Some(slot) = slots.iter().copied().filter(|slot| is_pruning(*slot)).max() else {
            return added.await.map(drop);
        };
        let oldest = slot - KEPT_SLOTS;
        let old: Params<'_> = &[&tenants, &oldest];
        let (added, pruned) = join(added, link.execute(PRUNE, old)).await;
        added.and(pruned).map(drop)
    }
}

/// Counts by step, end and class.
pub(super) async fn list(pool: &Pool, query: ActivityQuery) -> Result<Vec<ActivityRow>, Error> {
    let ActivityQuery { tenant, from, until, per } = &query;
    let link = &*pool.read_for(tenant.as_str()).await?;
    let sql = "SELECT (slot - $2) / $4, ending, class, sum(calls)::bigint FROM activity
               WHERE tenant = $1 AND slot >= $2 AND slot < $3 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3";
    let found = link.query(sql, &[&tenant.as_str(), from, until, &(*per).max(1)]).await?;
    let rows: Result<Vec<_>, Error> =
        found.iter().map(|row| rows::whole(row, ("activity", 0), self::row)).collect();
    Ok(rows?.into_iter().flatten().collect())
}

/// The row; none if it is of a kind that this program does not know.
fn row(row: &Row) -> Result<Option<ActivityRow>, Undecodable> {
    let Some(ending) = Ending::from_number(row.try_get(1)?) else { return Ok(None) };
    let class = TimeClass::from_number(row.try_get(2)?);
    let ended = EndedCall { slot: row.try_get(0)?, ending, class };
    Ok(Some(ActivityRow { ended, calls: rows::unsigned(row, 3)? }))
}
