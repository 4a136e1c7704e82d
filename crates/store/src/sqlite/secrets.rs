//! Secrets of tenants, encrypted.

use ringfence_sqlite::Db;
use ringfence_types::{KeyId, SecretName, TenantId};
use rusqlite::{OptionalExtension as _, Row, params};

use super::rows;
use crate::{Error, PAGE, SecretRow, SecretSeal};

const COLUMNS: &str = "SELECT tenant, name, rule, key, sealed, set_at, set_by FROM secrets";

/// Sets a secret in the place of an earlier one of the same name.
pub(super) async fn set(db: &Db, row: SecretRow) -> Result<(), Error> {
    let rule = rows::json(&row.rule)?;
    db.write(move |connection| {
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO secrets (tenant, name, rule, key, sealed, set_at, set_by)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                row.tenant.as_str(),
                row.name.as_str(),
                rule,
                row.seal.key,
                row.seal.bytes,
                row.set_at.as_micros(),
                row.set_by.0.as_bytes(),
            ])?;
        Ok(())
    })
    .await
}

/// Replaces an encryption by another one of the same value; `false` if the row changed since.
pub(super) async fn reseal(db: &Db, row: SecretRow, seal: SecretSeal) -> Result<bool, Error> {
    db.write(move |connection| {
        let changed = connection
            .prepare_cached(
                "UPDATE secrets SET key = ?1, sealed = ?2
                 WHERE tenant = ?3 AND name = ?4 AND sealed = ?5",
            )?
            .execute(params![
                seal.key,
                seal.bytes,
                row.tenant.as_str(),
                row.name.as_str(),
                row.seal.bytes,
            ])?;
        Ok(changed > 0)
    })
    .await
}

/// Removes a secret; `false` if there was none.
pub(super) async fn remove(db: &Db, tenant: &TenantId, name: &SecretName) -> Result<bool, Error> {
    let (tenant, name) = (tenant.clone(), name.clone());
    db.write(move |connection| {
        let removed = connection
            .prepare_cached("DELETE FROM secrets WHERE tenant = ?1 AND name = ?2")?
            .execute(params![tenant.as_str(), name.as_str()])?;
        Ok(removed > 0)
    })
    .await
}

/// One secret.
pub(super) async fn one(
    db: &Db,
    tenant: &TenantId,
    name: &SecretName,
) -> Result<Option<SecretRow>, Error> {
    let (tenant, name) = (tenant.clone(), name.clone());
    db.look_up(move |connection| {
        let sql = format!("{COLUMNS} WHERE tenant = ?1 AND name = ?2");
        let mut statement = connection.prepare_cached(&sql)?;
        Ok(statement.query_row(params![tenant.as_str(), name.as_str()], row).optional()?)
    })
    .await
}

/// Secrets of a tenant, or of all, by tenant and name, after `after`.
pub(super) async fn list(
    db: &Db,
    tenant: Option<&TenantId>,
    after: Option<(TenantId, SecretName)>,
) -> Result<Vec<SecretRow>, Error> {
    let tenant = tenant.cloned();
    let lane = tenant.as_ref().map_or_else(String::new, ToString::to_string);
    db.read_for(&lane, move |connection| {
        let after = after.as_ref().map(|(tenant, name)| (tenant.as_str(), name.as_str()));
        let (after_tenant, after_name) = after.unwrap_or_default();
        let sql = format!(
            "{COLUMNS} WHERE (?1 IS NULL OR tenant = ?1) AND (tenant, name) > (?2, ?3)
             ORDER BY tenant, name LIMIT ?4"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let tenant = tenant.as_ref().map(TenantId::as_str);
        let found = statement
            .query_map(params![tenant, after_tenant, after_name, rows::page(PAGE)], row)?;
        Ok(found.collect::<Result<_, _>>()?)
    })
    .await
}

fn row(row: &Row<'_>) -> rusqlite::Result<SecretRow> {
    Ok(SecretRow {
        tenant: rows::name(row, 0)?,
        name: rows::name(row, 1)?,
        rule: rows::parsed(row, 2)?,
        seal: SecretSeal { key: row.get(3)?, bytes: row.get(4)? },
        set_at: rows::timestamp(row, 5)?,
        set_by: rows::uuid(row, 6).map(KeyId)?,
    })
}
