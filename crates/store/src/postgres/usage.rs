//! Usage of ended calls. It is added up by a batch.

use std::{collections::BTreeMap, time::Duration};

use ringfence_types::{Call, KeyId, TenantId, Tokens};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    connect::{DbError, Link},
    pool::Pool,
    rows,
};
use crate::{
    Error, OtherUsage, UsageQuery, UsageRow, Used,
    encoding::{Undecodable, page, position},
    hour_of,
};

/// Adds sums; under the lock of the log, so that two processes never wait for each other's rows.
pub(super) const ADD: &str = "INSERT INTO usage
    (tenant, hour, key, tool, calls, failures, cpu_micros, wall_micros, output_bytes, input_tokens,
     output_tokens)
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::uuid[], $4::text[], $5::bigint[], $6::bigint[],
                         $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[])
    ON CONFLICT (tenant, hour, key, tool) DO UPDATE SET
    calls = usage.calls + excluded.calls,
    failures = usage.failures + excluded.failures,
    cpu_micros = usage.cpu_micros + excluded.cpu_micros,
    wall_micros = usage.wall_micros + excluded.wall_micros,
    output_bytes = usage.output_bytes + excluded.output_bytes,
    input_tokens = usage.input_tokens + excluded.input_tokens,
    output_tokens = usage.output_tokens + excluded.output_tokens";

/// Sums of the calls that end in a batch: by tenant, hour, key and tool.
#[derive(Debug, Default)]
pub(super) struct Sums<'a>(BTreeMap<(&'a str, i64, Uuid, &'a str), Used>);

impl<'a> Sums<'a> {
    /// Adds a call, if this step ends it.
    pub(super) fn add(&mut self, call: &'a Call) {
        let Some(used) = Used::of(call) else { return };
        let asked = &call.asked;
        let hour = hour_of(call.changed_at);
        let key = (asked.tenant.as_str(), hour, asked.key.0, asked.tool.name.as_str());
        let sum = self.0.entry(key).or_default();
        sum.calls += used.calls;
        sum.failures += used.failures;
        sum.cpu += used.cpu;
        sum.wall += used.wall;
        sum.output_bytes = sum.output_bytes.saturating_add(used.output_bytes);
        sum.tokens = sum.tokens.and(used.tokens);
    }

    pub(super) async fn write(&self, link: &Link) -> Result<(), DbError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let keys = || self.0.keys();
        let tenants: Vec<_> = keys().map(|key| key.0).collect();
        let hours: Vec<_> = keys().map(|key| key.1).collect();
        let ids: Vec<_> = keys().map(|key| key.2).collect();
        let tools: Vec<_> = keys().map(|key| key.3).collect();
        let column = |of: fn(&Used) -> i64| -> Vec<i64> { self.0.values().map(of).collect() };
        let (calls, failures) =
            (column(|used| position(used.calls)), column(|used| position(used.failures)));
        let (cpu, wall) = (column(|used| micros(used.cpu)), column(|used| micros(used.wall)));
        let bytes = column(|used| position(used.output_bytes));
        let input = column(|used| position(used.tokens.input));
        let output = column(|used| position(used.tokens.output));
        link.execute(
            ADD,
            &[
                &tenants, &hours, &ids, &tools, &calls, &failures, &cpu, &wall, &bytes, &input,
                &output,
            ],
        )
        .await
        .map(drop)
    }
}

/// Adds usage that belongs to no call. It is one row, so it waits for others and none waits for it in turn.
pub(super) async fn add_other(pool: &Pool, other: OtherUsage) -> Result<(), Error> {
    let OtherUsage { tenant, key, tool, at, used } = &other;
    let key = (tenant.as_str(), hour_of(*at), key.0, *tool);
    let link = &*pool.read().await?;
    Ok(Sums(BTreeMap::from([(key, *used)])).write(link).await?)
}

/// Microseconds, as SQL keeps them.
pub(super) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Sums in the order of time, then of tenant, key and tool.
pub(super) async fn list(pool: &Pool, query: UsageQuery) -> Result<Vec<UsageRow>, Error> {
    let UsageQuery { tenant, key, tool, from, until, per, by_key, by_tool, limit } = &query;
    if tool.as_ref().is_some_and(|tool| tool.contains('\0')) {
        return Ok(Vec::new());
    }
    let tenant = tenant.as_ref().map(TenantId::as_str);
    let link = &*pool.read_for(tenant.unwrap_or_default()).await?;
    let sql = format!(
        "SELECT hour / $1 * $1, tenant, {}, {}, sum(calls)::bigint, sum(failures)::bigint,
         sum(cpu_micros)::bigint, sum(wall_micros)::bigint, sum(output_bytes)::bigint,
         sum(input_tokens)::bigint, sum(output_tokens)::bigint FROM usage
         WHERE ($2::text IS NULL OR tenant = $2) AND hour >= $3 AND hour < $4
         AND ($5::uuid IS NULL OR key = $5) AND ($6::text IS NULL OR tool = $6)
         GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4 LIMIT $7",
        if *by_key { "key" } else { "NULL::uuid" },
        if *by_tool { "tool" } else { "NULL::text" },
    );
    let (hours, key, limit) = (per.hours(), key.map(|key| key.0), page(*limit));
    let found = link.query(&sql, &[&hours, &tenant, from, until, &key, tool, &limit]).await?;
    found.iter().map(|row| rows::whole(row, ("usage", 0), self::row)).collect()
}

fn row(row: &Row) -> Result<UsageRow, Undecodable> {
    Ok(UsageRow {
        hour: row.try_get(0)?,
        tenant: rows::name(row, 1)?,
        key: row.try_get::<_, Option<Uuid>>(2)?.map(KeyId),
        tool: row.try_get(3)?,
        used: Used {
            calls: rows::unsigned(row, 4)?,
            failures: rows::unsigned(row, 5)?,
            cpu: Duration::from_micros(rows::unsigned(row, 6)?),
            wall: Duration::from_micros(rows::unsigned(row, 7)?),
            output_bytes: rows::unsigned(row, 8)?,
            tokens: Tokens { input: rows::unsigned(row, 9)?, output: rows::unsigned(row, 10)? },
        },
    })
}
