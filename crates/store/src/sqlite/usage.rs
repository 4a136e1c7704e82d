//! Resources that ended calls took.

use std::time::Duration;

use ringfence_sqlite::{Connection, Db};
use ringfence_types::{Call, KeyId, TenantId, Timestamp, Tokens};
use rusqlite::{Row, params};

use super::rows;
use crate::{Error, OtherUsage, UsageQuery, UsageRow, Used, hour_of};

/// Adds a call, if this step ends it.
pub(super) fn add(connection: &Connection, call: &Call) -> Result<(), Error> {
    let Some(used) = Used::of(call) else { return Ok(()) };
    let (asked, tool) = (&call.asked, call.asked.tool.name.as_str());
    add_used(connection, (&asked.tenant, call.changed_at, asked.key, tool), &used)
}

/// Adds usage that belongs to no call.
pub(super) async fn add_other(db: &Db, other: OtherUsage) -> Result<(), Error> {
    db.write(move |connection| {
        let OtherUsage { tenant, key, tool, at, used } = &other;
        add_used(connection, (tenant, *at, *key, tool), used)
    })
    .await
}

fn add_used(
    connection: &Connection,
    (tenant, at, key, tool): (&TenantId, Timestamp, KeyId, &str),
    used: &Used,
) -> Result<(), Error> {
    connection
        .prepare_cached(
            "INSERT INTO usage
             (tenant, hour, key, tool, calls, failures, cpu_micros, wall_micros, output_bytes,
              input_tokens, output_tokens)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
             ON CONFLICT (tenant, hour, key, tool) DO UPDATE SET
             calls = calls + excluded.calls,
             failures = failures + excluded.failures,
             cpu_micros = cpu_micros + excluded.cpu_micros,
             wall_micros = wall_micros + excluded.wall_micros,
             output_bytes = output_bytes + excluded.output_bytes,
             input_tokens = input_tokens + excluded.input_tokens,
             output_tokens = output_tokens + excluded.output_tokens",
        )?
        .execute(params![
            tenant.as_str(),
            hour_of(at),
            key.0.as_bytes(),
            tool,
            whole(used.calls),
            whole(used.failures),
            micros(used.cpu),
            micros(used.wall),
            whole(used.output_bytes),
            whole(used.tokens.input),
            whole(used.tokens.output),
        ])?;
    Ok(())
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Sums in the order of time, then of tenant, key and tool.
pub(super) async fn list(db: &Db, query: UsageQuery) -> Result<Vec<UsageRow>, Error> {
    let lane = query.tenant.as_ref().map_or_else(String::new, ToString::to_string);
    db.read_for(&lane, move |connection| {
        let UsageQuery { tenant, key, tool, from, until, per, by_key, by_tool, limit } = &query;
        let sql = format!(
            "SELECT hour / ?1 * ?1 AS period, tenant, {}, {}, sum(calls), sum(failures),
             sum(cpu_micros), sum(wall_micros), sum(output_bytes), sum(input_tokens),
             sum(output_tokens) FROM usage
             WHERE {} AND hour >= ?3 AND hour < ?4 AND (?5 IS NULL OR key = ?5)
             AND (?6 IS NULL OR tool = ?6)
             GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4 LIMIT ?7",
            if *by_key { "key" } else { "NULL" },
            if *by_tool { "tool" } else { "NULL" },
            if tenant.is_some() { "tenant = ?2" } else { "?2 IS NULL" },
        );
        let wanted = params![
            per.hours(),
            tenant.as_ref().map(TenantId::as_str),
            from,
            until,
            key.map(|key| key.0.into_bytes()),
            tool,
            rows::page(*limit),
        ];
        let mut statement = connection.prepare_cached(&sql)?;
        let found = statement.query_map(wanted, row)?.collect::<Result<_, _>>()?;
        Ok(found)
    })
    .await
}

fn row(row: &Row<'_>) -> rusqlite::Result<UsageRow> {
    let number = |index| row.get::<_, i64>(index).map(|number| u64::try_from(number).unwrap_or(0));
    let has_key = row.get_ref(2)? != rusqlite::types::ValueRef::Null;
    Ok(UsageRow {
        hour: row.get(0)?,
        tenant: rows::name(row, 1)?,
        key: has_key.then(|| rows::uuid(row, 2).map(KeyId)).transpose()?,
        tool: row.get(3)?,
        used: Used {
            calls: number(4)?,
            failures: number(5)?,
            cpu: Duration::from_micros(number(6)?),
            wall: Duration::from_micros(number(7)?),
            output_bytes: number(8)?,
            tokens: Tokens { input: number(9)?, output: number(10)? },
        },
    })
}
