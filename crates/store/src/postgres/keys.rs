//! Keys, found again. They are added and revoked by a batch.

use ringfence_types::{Digest, KeyId, TenantId, Timestamp};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{pool::Pool, rows};
use crate::{Error, Key, encoding::Undecodable};

/// Columns in the order that [`key`] reads.
pub(super) const COLUMNS: &str = "SELECT id, tenant, persona, label, prefix, secret, scopes, \
    created_at, created_by, expires_at, revoked_at, key_uses.at, person \
    FROM keys LEFT JOIN key_uses ON key_uses.key = keys.id";

/// Adds a key, unless there is one with its id or its secret.
pub(super) const INSERT: &str = "INSERT INTO keys (id, tenant, persona, person, label, prefix, \
    secret, scopes, created_at, created_by, expires_at, revoked_at) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING";

pub(super) async fn list(pool: &Pool, tenant: Option<&TenantId>) -> Result<Vec<Key>, Error> {
    let tenant = tenant.map(TenantId::as_str);
    let link = &*pool.read_for(tenant.unwrap_or_default()).await?;
    let order = "ORDER BY created_at, id";
    let found = match tenant {
        Some(tenant) => {
            let sql = format!("{COLUMNS} WHERE tenant = $1 {order}");
            link.query(&sql, &[&tenant]).await?
        }
        None => link.query(&format!("{COLUMNS} {order}"), &[]).await?,
    };
    Ok(rows::readable(&found, ("keys", 0), key))
}

pub(super) async fn one(pool: &Pool, id: KeyId) -> Result<Option<Key>, Error> {
    let link = &*pool.look_up().await?;
    let row = link.first(&format!("{COLUMNS} WHERE id = $1"), &[&id.0]).await?;
    row.map(|row| rows::whole(&row, ("keys", 0), key)).transpose()
}

pub(super) async fn by_secret(pool: &Pool, secret: Digest) -> Result<Option<Key>, Error> {
    let link = &*pool.look_up().await?;
    let sql = format!("{COLUMNS} WHERE secret = $1");
    let row = link.first(&sql, &[&secret.as_bytes().as_slice()]).await?;
    row.map(|row| rows::whole(&row, ("keys", 0), key)).transpose()
}

/// Sorted, so that two processes never wait for each other.
pub(super) async fn touch(pool: &Pool, used: Vec<(KeyId, Timestamp)>) -> Result<(), Error> {
    let (mut ids, mut times): (Vec<Uuid>, Vec<i64>) = (Vec::new(), Vec::new());
    for (id, at) in used {
        ids.push(id.0);
        times.push(at.as_micros());
    }
    let link = &*pool.look_up().await?;
    let sql = "INSERT INTO key_uses (key, at)
            SELECT used.key, max(used.at) FROM unnest($1::uuid[], $2::bigint[]) AS used (key, at)
            JOIN keys ON keys.id = used.key GROUP BY used.key ORDER BY used.key
            ON CONFLICT (key) DO UPDATE SET at = greatest(key_uses.at, excluded.at)";
    link.execute(sql, &[&ids, &times]).await?;
    Ok(())
}

pub(super) fn key(row: &Row) -> Result<Key, Undecodable> {
    Ok(Key {
        id: KeyId(row.try_get(0)?),
        tenant: rows::name(row, 1)?,
        persona: rows::name_or_none(row, 2)?,
        label: row.try_get(3)?,
        prefix: row.try_get(4)?,
        secret: rows::digest(row, 5)?,
        scopes: rows::parsed(row, 6)?,
        created_at: rows::timestamp(row, 7)?,
        created_by: row.try_get::<_, Option<Uuid>>(8)?.map(KeyId),
        expires_at: rows::timestamp_or_none(row, 9)?,
        revoked_at: rows::timestamp_or_none(row, 10)?,
        last_used_at: rows::timestamp_or_none(row, 11)?,
        person: rows::name_or_none(row, 12)?,
    })
}
