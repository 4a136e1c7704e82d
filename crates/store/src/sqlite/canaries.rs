//! Findings about policies that are tried.

use ringfence_sqlite::{Connection, Db};
use rusqlite::{OptionalExtension as _, params};

use super::rows;
use crate::{Error, Findings, NewFindings};

pub(super) async fn add(db: &Db, new: NewFindings) -> Result<(), Error> {
    db.write(move |connection| {
        count(connection, &new)?;
        let mut number = newest(connection, &new.canary)?;
        for difference in &new.differences {
            number += 1;
            connection
                .prepare_cached(
                    "INSERT INTO canary_differences (canary, number, difference)
                     VALUES (?1, ?2, ?3)",
                )?
                .execute(params![new.canary, number, difference])?;
        }
        connection
            .prepare_cached("DELETE FROM canary_differences WHERE canary = ?1 AND number <= ?2")?
            .execute(params![new.canary, number - i64::from(new.most)])?;
        Ok(())
    })
    .await
}

fn newest(connection: &Connection, canary: &str) -> Result<i64, Error> {
    let sql = "SELECT coalesce(max(number), 0) FROM canary_differences WHERE canary = ?1";
    Ok(connection.prepare_cached(sql)?.query_row([canary], |row| row.get(0))?)
}

fn count(connection: &Connection, new: &NewFindings) -> Result<(), Error> {
    let (_, before) = counted(connection, &new.canary)?.unwrap_or_default();
    let longer = before.len().max(new.counts.len());
    let at = |counts: &[u64], index: usize| counts.get(index).copied().unwrap_or(0);
    let sums: Vec<_> = (0..longer)
        .map(|index| at(&before, index).saturating_add(at(&new.counts, index)))
        .collect();
    connection
        .prepare_cached(
            "INSERT INTO canaries (name, since, counts) VALUES (?1, ?2, ?3)
             ON CONFLICT (name) DO UPDATE SET counts = excluded.counts",
        )?
        .execute(params![new.canary, new.at.as_micros(), rows::json(&sums)?])?;
    Ok(())
}

fn counted(connection: &Connection, canary: &str) -> Result<Option<(i64, Vec<u64>)>, Error> {
    let sql = "SELECT since, counts FROM canaries WHERE name = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let row = statement.query_row([canary], |row| Ok((row.get(0)?, rows::parsed(row, 1)?)));
    Ok(row.optional()?)
}

pub(super) async fn find(
    db: &Db,
    canary: &str,
    before: Option<u64>,
    limit: usize,
) -> Result<Findings, Error> {
    let canary = canary.to_owned();
    db.read(move |connection| {
        let Some((since, counts)) = counted(connection, &canary)? else {
            return Ok(Findings::default());
        };
        let mut statement = connection.prepare_cached(
            "SELECT number, difference FROM canary_differences
             WHERE canary = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3",
        )?;
        let before = before.map_or(i64::MAX, rows::position);
        let found = statement.query_map(params![canary, before, rows::page(limit)], |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?))
        })?;
        let differences = found.collect::<Result<_, _>>()?;
        let since = Some(ringfence_types::Timestamp::from_micros(since));
        Ok(Findings { since, counts, differences })
    })
    .await
}
