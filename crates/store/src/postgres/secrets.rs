//! Secrets of tenants, encrypted.

use ringfence_types::{KeyId, SecretName, TenantId};
use tokio_postgres::Row;

use super::{pool::Pool, rows};
use crate::{
    Error, PAGE, SecretRow, SecretSeal,
    encoding::{Undecodable, json, page},
};

const COLUMNS: &str = "SELECT tenant, name, rule, key, sealed, set_at, set_by FROM secrets";

/// Sets a secret in the place of an earlier one of the same name.
pub(super) async fn set(pool: &Pool, row: SecretRow) -> Result<(), Error> {
    let rule = json(&row.rule)?;
    let link = &*pool.read().await?;
    let sql = "INSERT INTO secrets (tenant, name, rule, key, sealed, set_at, set_by)
               VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (tenant, name) DO UPDATE SET
               rule = excluded.rule, key = excluded.key, sealed = excluded.sealed,
               set_at = excluded.set_at, set_by = excluded.set_by";
    let (tenant, name) = (row.tenant.as_str(), row.name.as_str());
    let (key, sealed) = (&row.seal.key, &row.seal.bytes);
    let at = row.set_at.as_micros();
    link.execute(sql, &[&tenant, &name, &rule, key, sealed, &at, &row.set_by.0]).await?;
    Ok(())
}

/// Replaces an encryption by another one of the same value; `false` if the row changed since.
pub(super) async fn reseal(pool: &Pool, row: SecretRow, seal: SecretSeal) -> Result<bool, Error> {
    let link = &*pool.read().await?;
    let sql = "UPDATE secrets SET key = $1, sealed = $2
               WHERE tenant = $3 AND name = $4 AND sealed = $5";
    let (tenant, name) = (row.tenant.as_str(), row.name.as_str());
    let (key, bytes, before) = (&seal.key, &seal.bytes, &row.seal.bytes);
    Ok(link.execute(sql, &[key, bytes, &tenant, &name, before]).await? > 0)
}

/// Removes a secret; `false` if there was none.
pub(super) async fn remove(
    pool: &Pool,
    tenant: &TenantId,
    name: &SecretName,
) -> Result<bool, Error> {
    let link = &*pool.read().await?;
    let sql = "DELETE FROM secrets WHERE tenant = $1 AND name = $2";
    Ok(link.execute(sql, &[&tenant.as_str(), &name.as_str()]).await? > 0)
}

/// One secret.
pub(super) async fn one(
    pool: &Pool,
    tenant: &TenantId,
    name: &SecretName,
) -> Result<Option<SecretRow>, Error> {
    let link = &*pool.look_up().await?;
    let sql = format!("{COLUMNS} WHERE tenant = $1 AND name = $2");
    let row = link.first(&sql, &[&tenant.as_str(), &name.as_str()]).await?;
    row.map(|row| rows::whole(&row, ("secrets", 0), self::row)).transpose()
}

/// Secrets of a tenant, or of all, by tenant and name, after `after`.
pub(super) async fn list(
    pool: &Pool,
    tenant: Option<&TenantId>,
    after: Option<(TenantId, SecretName)>,
) -> Result<Vec<SecretRow>, Error> {
    let tenant = tenant.map(TenantId::as_str);
    let after = after.as_ref().map(|(tenant, name)| (tenant.as_str(), name.as_str()));
    let (after_tenant, after_name) = after.unwrap_or_default();
    let link = &*pool.read_for(tenant.unwrap_or_default()).await?;
    let sql = format!(
        "{COLUMNS} WHERE ($1::text IS NULL OR tenant = $1) AND (tenant, name) > ($2, $3)
         ORDER BY tenant, name LIMIT $4"
    );
    let found = link.query(&sql, &[&tenant, &after_tenant, &after_name, &page(PAGE)]).await?;
    found.iter().map(|row| rows::whole(row, ("secrets", 0), self::row)).collect()
}

fn row(row: &Row) -> Result<SecretRow, Undecodable> {
    Ok(SecretRow {
        tenant: rows::name(row, 0)?,
        name: rows::name(row, 1)?,
        rule: rows::parsed(row, 2)?,
        seal: SecretSeal { key: row.try_get(3)?, bytes: row.try_get(4)? },
        set_at: rows::timestamp(row, 5)?,
        set_by: KeyId(row.try_get(6)?),
    })
}
