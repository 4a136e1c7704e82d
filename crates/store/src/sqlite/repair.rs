//! Rows of keys and approvals, set to what the ledger says.

use std::sync::Arc;

use ringfence_sqlite::Connection;
use ringfence_types::{KeyId, Sealed};
use rusqlite::params;

use super::{SqliteStore, approvals, hook, keys, ledger, rows};
use crate::{Error, Repair};

pub(super) async fn repair(
    store: &SqliteStore,
    repairs: Vec<Repair>,
    entries: Vec<Sealed>,
) -> Result<(), Error> {
    hook::check(store, &entries)?;
    let write = move |connection: &Connection| -> Result<Option<u64>, Error> {
        repairs.iter().try_for_each(|repair| change(connection, repair))?;
        let mut size = None;
        for entry in &entries {
            size = Some(ledger::put(connection, entry)?);
        }
        Ok(size)
    };
    let grown = Arc::clone(&store.grown);
    store.db.write_then(write, move |size| ledger::announce(&grown, *size)).await.map(drop)
}

fn change(connection: &Connection, repair: &Repair) -> Result<(), Error> {
    match repair {
        Repair::PutKey(key) => {
            remove_key(connection, key.id)?;
            keys::insert(connection, key, &rows::json(&key.scopes)?)?;
        }
        Repair::RemoveKey(id) => remove_key(connection, *id)?,
        Repair::SetApproval { approval, revoked } => {
            connection
                .execute("DELETE FROM approvals WHERE id = ?1", [approval.id.0.as_bytes()])?;
            approvals::insert(connection, approval, &rows::json(approval)?)?;
            if let Some((at, by)) = revoked {
                let sql = "UPDATE approvals SET revoked_at = ?2, revoked_by = ?3 WHERE id = ?1";
                let id = approval.id.0.as_bytes();
                connection.execute(sql, params![id, at.as_micros(), by.0.as_bytes()])?;
            }
        }
        Repair::RemoveApproval(id) => {
            connection.execute("DELETE FROM approvals WHERE id = ?1", [id.0.as_bytes()])?;
        }
        Repair::AddUse(call, spend) => approvals::spend(connection, *call, spend)?,
    }
    Ok(())
}

fn remove_key(connection: &Connection, id: KeyId) -> Result<(), Error> {
    connection.execute("DELETE FROM keys WHERE id = ?1", [id.0.as_bytes()])?;
    Ok(())
}
