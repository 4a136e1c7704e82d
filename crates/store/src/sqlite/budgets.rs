//! Budgets of tenants and keys.

use std::time::Duration;

use ringfence_sqlite::Db;
use ringfence_types::{KeyId, TenantId};
use rusqlite::{Row, params};

use super::rows;
use crate::{Budget, BudgetBounds, BudgetFor, Error, PAGE, Period};

/// Sets a budget in the place of an earlier one.
pub(super) async fn set(db: &Db, budget: Budget) -> Result<(), Error> {
    db.write(move |connection| {
        let Budget { of, bounds } = &budget;
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO budgets (tenant, key, hours, calls, cpu_micros, output_bytes,
                                                  tokens)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                of.tenant.as_str(),
                key(of.key),
                of.per.hours(),
                bounds.calls.map(whole),
                bounds.cpu.map(micros),
                bounds.output_bytes.map(whole),
                bounds.tokens.map(whole),
            ])?;
        Ok(())
    })
    .await
}

/// Removes a budget; `false` if there was none.
pub(super) async fn remove(db: &Db, of: BudgetFor) -> Result<bool, Error> {
    db.write(move |connection| {
        let removed = connection
            .prepare_cached("DELETE FROM budgets WHERE tenant = ?1 AND key = ?2 AND hours = ?3")?
            .execute(params![of.tenant.as_str(), key(of.key), of.per.hours()])?;
        Ok(removed > 0)
    })
    .await
}

/// Budgets of a tenant, or of all: by tenant, key and period.
pub(super) async fn list(db: &Db, tenant: Option<&TenantId>) -> Result<Vec<Budget>, Error> {
    let tenant = tenant.cloned();
    let lane = tenant.as_ref().map_or_else(String::new, ToString::to_string);
    db.read_for(&lane, move |connection| {
        let tenant = tenant.as_ref().map(TenantId::as_str);
        let mut statement = connection.prepare_cached(
            "SELECT tenant, key, hours, calls, cpu_micros, output_bytes, tokens FROM budgets
             WHERE ?1 IS NULL OR tenant = ?1 ORDER BY tenant, key, hours LIMIT ?2",
        )?;
        let found = statement.query_map(params![tenant, rows::page(PAGE)], row)?;
        Ok(found.collect::<Result<_, _>>()?)
    })
    .await
}

/// Bytes of a key; none of them stand for the whole tenant.
fn key(key: Option<KeyId>) -> Vec<u8> {
    key.map(|key| key.0.into_bytes().to_vec()).unwrap_or_default()
}

fn row(row: &Row<'_>) -> rusqlite::Result<Budget> {
    let number = |index| {
        let number = row.get::<_, Option<i64>>(index)?;
        Ok::<_, rusqlite::Error>(number.map(|number| u64::try_from(number).unwrap_or(0)))
    };
    let is_of_key = !row.get_ref(1)?.as_blob()?.is_empty();
    let per = match row.get::<_, i64>(2)? {
        1 => Period::Hour,
        _ => Period::Day,
    };
    Ok(Budget {
        of: BudgetFor {
            tenant: rows::name(row, 0)?,
            key: is_of_key.then(|| rows::uuid(row, 1).map(KeyId)).transpose()?,
            per,
        },
        bounds: BudgetBounds {
            calls: number(3)?,
            cpu: number(4)?.map(Duration::from_micros),
            output_bytes: number(5)?,
            tokens: number(6)?,
        },
    })
}
