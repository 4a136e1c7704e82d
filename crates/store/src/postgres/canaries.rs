//! Findings about policies that are tried.

use super::{connect::Link, pool::Pool};
use crate::{Error, Findings, NewFindings, encoding};

/// Adds to the counts, each to its own. The row stays locked until the transaction ends, so the numbers of
/// differences are given by one process at a time.
const COUNT: &str = "INSERT INTO canaries (name, since, counts) VALUES ($1, $2, $3)
    ON CONFLICT (name) DO UPDATE SET counts = (
        SELECT array_agg(least(coalesce(a, 0)::numeric + coalesce(b, 0), 9223372036854775807)::bigint
                         ORDER BY number)
        FROM unnest(canaries.counts, excluded.counts) WITH ORDINALITY AS sums (a, b, number))";

const ADD: &str = "INSERT INTO canary_differences (canary, number, difference)
    SELECT $1, number + (SELECT coalesce(max(number), 0) FROM canary_differences WHERE canary = $1),
           difference
    FROM unnest($2::text[]) WITH ORDINALITY AS new (difference, number)";

const FORGET: &str = "DELETE FROM canary_differences WHERE canary = $1 AND number <=
    (SELECT max(number) - $2 FROM canary_differences WHERE canary = $1)";

pub(super) async fn add(pool: &Pool, new: NewFindings) -> Result<(), Error> {
    let counts: Vec<i64> = new.counts.iter().copied().map(encoding::position).collect();
    // A connection of its own: dropped half-way, it leaves no transaction behind.
    let link = &Link::open(pool.url()).await?;
    let (canary, at, most) = (&new.canary, new.at.as_micros(), i64::from(new.most));
    link.batch("BEGIN").await?;
    link.execute(COUNT, &[canary, &at, &counts]).await?;
    link.execute(ADD, &[canary, &new.differences]).await?;
    link.execute(FORGET, &[canary, &most]).await?;
    Ok(link.batch("COMMIT").await?)
}

pub(super) async fn find(
    pool: &Pool,
    canary: &str,
    before: Option<u64>,
    limit: usize,
) -> Result<Findings, Error> {
    let link = &*pool.read().await?;
    let sql = "SELECT since, counts FROM canaries WHERE name = $1";
    let Some(row) = link.first(sql, &[&canary]).await? else { return Ok(Findings::default()) };
    let counts: Vec<i64> = row.try_get(1)?;
    let sql = "SELECT number, difference FROM canary_differences
                   WHERE canary = $1 AND number < $2 ORDER BY number DESC LIMIT $3";
    let before = before.map_or(i64::MAX, encoding::position);
    let found = link.query(sql, &[&canary, &before, &encoding::page(limit)]).await?;
    let mut differences = Vec::new();
    for row in &found {
        differences.push((row.try_get::<_, i64>(0)?.cast_unsigned(), row.try_get(1)?));
    }
    Ok(Findings {
        since: Some(ringfence_types::Timestamp::from_micros(row.try_get(0)?)),
        counts: counts.into_iter().map(i64::cast_unsigned).collect(),
        differences,
    })
}
