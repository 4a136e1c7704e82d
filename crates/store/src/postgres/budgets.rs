//! Budgets of tenants and keys.

use std::time::Duration;

use ringfence_types::{KeyId, TenantId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{pool::Pool, rows, usage::micros};
use crate::{
    Budget, BudgetBounds, BudgetFor, Error, PAGE, Period,
    encoding::{Undecodable, page, position},
};

/// Sets a budget in the place of an earlier one for the same.
pub(super) async fn set(pool: &Pool, budget: Budget) -> Result<(), Error> {
    let Budget { of, bounds } = &budget;
    let link = &*pool.read().await?;
    let sql = "INSERT INTO budgets (tenant, key, hours, calls, cpu_micros, output_bytes, tokens)
               VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (tenant, key, hours) DO UPDATE SET
               calls = excluded.calls, cpu_micros = excluded.cpu_micros,
               output_bytes = excluded.output_bytes, tokens = excluded.tokens";
    let (calls, cpu) = (bounds.calls.map(position), bounds.cpu.map(micros));
    let (bytes, tokens) = (bounds.output_bytes.map(position), bounds.tokens.map(position));
    let (tenant, key, hours) = (of.tenant.as_str(), key(of.key), of.per.hours());
    link.execute(sql, &[&tenant, &key, &hours, &calls, &cpu, &bytes, &tokens]).await?;
    Ok(())
}

/// Removes a budget; `false` if there was none.
pub(super) async fn remove(pool: &Pool, of: BudgetFor) -> Result<bool, Error> {
    let link = &*pool.read().await?;
    let sql = "DELETE FROM budgets WHERE tenant = $1 AND key = $2 AND hours = $3";
    let (tenant, key, hours) = (of.tenant.as_str(), key(of.key), of.per.hours());
    Ok(link.execute(sql, &[&tenant, &key, &hours]).await? > 0)
}

/// Budgets of a tenant, or of all: by tenant, key and period.
pub(super) async fn list(pool: &Pool, tenant: Option<&TenantId>) -> Result<Vec<Budget>, Error> {
    let tenant = tenant.map(TenantId::as_str);
    let link = &*pool.read_for(tenant.unwrap_or_default()).await?;
    let sql = "SELECT hours, tenant, key, calls, cpu_micros, output_bytes, tokens FROM budgets
               WHERE $1::text IS NULL OR tenant = $1 ORDER BY tenant, key, hours LIMIT $2";
    let found = link.query(sql, &[&tenant, &page(PAGE)]).await?;
    found.iter().map(|row| rows::whole(row, ("budgets", 0), self::row)).collect()
}

/// Bytes of a key; none of them stand for the whole tenant.
fn key(key: Option<KeyId>) -> Vec<u8> {
    key.map(|key| key.0.into_bytes().to_vec()).unwrap_or_default()
}

fn row(row: &Row) -> Result<Budget, Undecodable> {
    let number = |index| row.try_get::<_, Option<i64>>(index).map(|n| n.map(i64::cast_unsigned));
    let key: &[u8] = row.try_get(2)?;
    let per = match row.try_get::<_, i64>(0)? {
        1 => Period::Hour,
        _ => Period::Day,
    };
    Ok(Budget {
        of: BudgetFor {
            tenant: rows::name(row, 1)?,
            key: (!key.is_empty()).then(|| Uuid::from_slice(key).map(KeyId)).transpose()?,
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
