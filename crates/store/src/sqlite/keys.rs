//! Keys. There are few, so nothing here is hurried.

use std::sync::Arc;

use ringfence_sqlite::{Connection, Db};
use ringfence_types::{Digest, KeyId, Scope, Scopes, Sealed, TenantId, Timestamp};
use rusqlite::{OptionalExtension as _, Row, params};

use super::{SqliteStore, hook, ledger, rows};
use crate::{Error, Key, Revocation, Revoked};

pub(super) const COLUMNS: &str = "SELECT id, tenant, persona, label, prefix, secret, scopes, created_at, \
                       created_by, expires_at, revoked_at, last_used_at, person FROM keys";

/// A second key with the same id or the same secret is [`Error::Stale`].
pub(super) async fn add(store: &SqliteStore, key: Key, entry: Sealed) -> Result<(), Error> {
    hook::check(store, std::slice::from_ref(&entry))?;
    let scopes = rows::json(&key.scopes)?;
    let add = move |connection: &Connection| {
        let added = insert(connection, &key, &scopes)?;
        if added == 1 {
            ledger::insert(connection, &entry, None, ledger::Kept::Here)
        } else {
            Err(Error::Stale)
        }
    };
    let grown = Arc::clone(&store.grown);
    let added = store.db.write_then(add, move |size| ledger::announce(&grown, Some(*size)));
    added.await.map(drop)
}

/// Adds the row, unless there is one with its id or its secret; says how many were added.
pub(super) fn insert(connection: &Connection, key: &Key, scopes: &str) -> Result<usize, Error> {
    let micros = |at: Option<Timestamp>| at.map(Timestamp::as_micros);
    let added = connection.execute(
        "INSERT INTO keys (id, tenant, persona, label, prefix, secret, scopes, created_at,
                           created_by, expires_at, revoked_at, last_used_at, person)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) ON CONFLICT DO NOTHING",
        params![
            key.id.0.as_bytes(),
            key.tenant.as_str(),
            key.persona.as_ref().map(|persona| persona.as_str()),
            key.label,
            key.prefix,
            key.secret.as_bytes(),
            scopes,
            key.created_at.as_micros(),
            key.created_by.as_ref().map(|by| by.0.as_bytes()),
            micros(key.expires_at),
            micros(key.revoked_at),
            micros(key.last_used_at),
            key.person.as_ref().map(|person| person.as_str()),
        ],
    )?;
    Ok(added)
}

pub(super) async fn list(db: &Db, tenant: Option<&TenantId>) -> Result<Vec<Key>, Error> {
    let (tenant, lane) = (tenant.cloned(), tenant.map_or(String::new(), ToString::to_string));
    db.read_for(&lane, move |connection| {
        let tenant = tenant.as_ref().map(TenantId::as_str);
        let mut statement = connection.prepare_cached(&selection(tenant))?;
        Ok(rows::readable(statement.query([tenant])?, ("keys", 0), key)?)
    })
    .await
}

fn selection(tenant: Option<&str>) -> String {
    let of = match tenant {
        Some(_) => "WHERE tenant = ?1",
        None => "WHERE ?1 IS NULL",
    };
    format!("{COLUMNS} {of} ORDER BY created_at, id")
}

pub(super) async fn one(db: &Db, id: KeyId) -> Result<Option<Key>, Error> {
    db.look_up(move |connection| {
        let mut statement = connection.prepare_cached(&format!("{COLUMNS} WHERE id = ?1"))?;
        Ok(statement.query_row([id.0.as_bytes()], key).optional()?)
    })
    .await
}

pub(super) async fn by_secret(db: &Db, secret: Digest) -> Result<Option<Key>, Error> {
    db.look_up(move |connection| {
        let mut statement = connection.prepare_cached(&format!("{COLUMNS} WHERE secret = ?1"))?;
        Ok(statement.query_row([secret.as_bytes()], key).optional()?)
    })
    .await
}

pub(super) async fn revoke(
    store: &SqliteStore,
    revocation: Revocation,
    entry: Sealed,
) -> Result<Revoked, Error> {
    hook::check(store, std::slice::from_ref(&entry))?;
    let revoke = move |connection: &Connection| -> Result<(Revoked, Option<u64>), Error> {
        let Revocation { key, tenant, at, keeps_admin_of } = &revocation;
        let tenant = tenant.as_ref().map(TenantId::as_str);
        let sql = "SELECT revoked_at IS NULL FROM keys
                   WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)";
        let mut statement = connection.prepare_cached(sql)?;
        let found =
            statement.query_row(params![key.0.as_bytes(), tenant], |row| row.get::<_, bool>(0));
        let Some(is_first) = found.optional()? else { return Ok((Revoked::NotFound, None)) };
        if !is_first {
            return Ok((Revoked::Done, None));
        }
        if let Some(tenant) = keeps_admin_of
            && admins(connection, tenant, *at)? == [*key]
        {
            return Ok((Revoked::LastAdmin, None));
        }
        let sql = "UPDATE keys SET revoked_at = ?1 WHERE id = ?2";
        connection.execute(sql, params![at.as_micros(), key.0.as_bytes()])?;
        let size = ledger::insert(connection, &entry, None, ledger::Kept::Here)?;
        Ok((Revoked::Done, Some(size)))
    };
    let grown = Arc::clone(&store.grown);
    let then = move |(_, size): &(Revoked, Option<u64>)| ledger::announce(&grown, *size);
    store.db.write_then(revoke, then).await.map(|(revoked, _)| revoked)
}

/// Keys of a tenant with scope `admin` that are valid at a moment.
fn admins(connection: &Connection, tenant: &TenantId, at: Timestamp) -> Result<Vec<KeyId>, Error> {
    let sql = "SELECT id, scopes FROM keys WHERE tenant = ?1 AND revoked_at IS NULL
               AND (expires_at IS NULL OR expires_at > ?2)";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_map(params![tenant.as_str(), at.as_micros()], |row| {
        Ok((KeyId(rows::uuid(row, 0)?), rows::parsed::<Scopes>(row, 1)?))
    })?;
    let found: Vec<_> = found.collect::<Result<_, _>>()?;
    let is_admin = |(_, scopes): &(KeyId, Scopes)| scopes.allow(Scope::Admin);
    Ok(found.into_iter().filter(is_admin).map(|(id, _)| id).collect())
}

pub(super) async fn touch(db: &Db, used: Vec<(KeyId, Timestamp)>) -> Result<(), Error> {
    db.write(move |connection| {
        let mut statement = connection.prepare_cached(
            "UPDATE keys SET last_used_at = ?1
             WHERE id = ?2 AND (last_used_at IS NULL OR last_used_at < ?1)",
        )?;
        for (id, at) in &used {
            statement.execute(params![at.as_micros(), id.0.as_bytes()])?;
        }
        Ok(())
    })
    .await
}

pub(super) fn key(row: &Row<'_>) -> rusqlite::Result<Key> {
    let has =
        |index: usize| row.get_ref(index).map(|value| value != rusqlite::types::ValueRef::Null);
    let timestamp = |index: usize| has(index)?.then(|| rows::timestamp(row, index)).transpose();
    Ok(Key {
        id: KeyId(rows::uuid(row, 0)?),
        tenant: rows::name(row, 1)?,
        persona: has(2)?.then(|| rows::name(row, 2)).transpose()?,
        label: row.get(3)?,
        prefix: row.get(4)?,
        secret: rows::digest(row, 5)?,
        scopes: rows::parsed(row, 6)?,
        created_at: rows::timestamp(row, 7)?,
        created_by: has(8)?.then(|| rows::uuid(row, 8)).transpose()?.map(KeyId),
        expires_at: timestamp(9)?,
        revoked_at: timestamp(10)?,
        last_used_at: timestamp(11)?,
        person: has(12)?.then(|| rows::name(row, 12)).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_tenant_are_found_and_ordered_by_an_index() {
        let connection = Connection::open_in_memory().unwrap();
        super::super::MIGRATIONS.iter().for_each(|sql| connection.execute_batch(sql).unwrap());
        let sql = format!("EXPLAIN QUERY PLAN {}", selection(Some("t")));
        let mut statement = connection.prepare(&sql).unwrap();
        let steps = statement.query_map(["t"], |row| row.get::<_, String>(3)).unwrap();
        let plan = steps.collect::<Result<Vec<_>, _>>().unwrap().join("; ");
        assert!(plan.contains("INDEX keys_by_tenant ") && !plan.contains("B-TREE"), "{plan}");
    }
}
