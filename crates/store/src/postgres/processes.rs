//! Living processes, and what each of them has in memory alone.

use ringfence_types::{CallId, Digest, TenantId, Timestamp};
use tokio_postgres::Row;

use super::{Shared, connect::Link, lock};
use crate::{Error, Process, ProcessInfo};

/// Columns of a process, in the order in which [`process`] reads them.
const COLUMNS: &str = "processes.id, (extract(epoch FROM processes.started_at) * 1000000)::bigint,
    processes.address, processes.role, processes.version, processes.policy";

const IS_ALIVE: &str = "NOT processes.dead AND processes.ends_at >= now()";

const DESCRIBE: &str =
    "UPDATE processes SET address = $2, role = $3, version = $4, policy = $5 WHERE id = $1";

const ADD_SANDBOXES: &str = "INSERT INTO sandboxes (id, tenant, owner)
    SELECT id, tenant, $3 FROM unnest($1::text[], $2::text[]) AS own (id, tenant)
    ON CONFLICT (id) DO UPDATE SET owner = excluded.owner";

/// Sandboxes ended with their processes.
pub(super) const SWEEP_SANDBOXES: &str = "DELETE FROM sandboxes WHERE NOT EXISTS
    (SELECT 1 FROM processes WHERE processes.id = sandboxes.owner AND NOT processes.dead)";

/// Writes the description of this process, and its sandboxes: for a new number too.
pub(super) async fn describe(shared: &Shared, link: &Link) -> Result<(), Error> {
    let process = shared.process();
    let ProcessInfo { address, role, version, policy } = lock(&shared.about).clone();
    let policy = policy.as_ref().map(|digest| digest.as_bytes().as_slice());
    link.execute(DESCRIBE, &[&process, &address, &role.as_str(), &version, &policy]).await?;
    let own = lock(&shared.sandboxes).clone();
    if !own.is_empty() {
        let (ids, tenants): (Vec<_>, Vec<_>) = own.into_iter().unzip();
        link.execute(ADD_SANDBOXES, &[&ids, &tenants, &process]).await?;
    }
    Ok(())
}

pub(super) async fn list(shared: &Shared) -> Result<Vec<Process>, Error> {
    let link = &*shared.pool.look_up().await?;
    let sql = format!("SELECT {COLUMNS} FROM processes WHERE {IS_ALIVE} ORDER BY id");
    let found = link.query(&sql, &[]).await?;
    found.iter().map(|row| process(shared, row)).collect()
}

pub(super) async fn owner_of_call(
    shared: &Shared,
    tenant: &TenantId,
    id: CallId,
) -> Result<Option<Process>, Error> {
    let link = &*shared.pool.read_for(tenant.as_str()).await?;
    let sql = format!(
        "SELECT {COLUMNS} FROM calls JOIN processes ON processes.id = calls.owner
         WHERE calls.id = $1 AND calls.tenant = $2 AND calls.open AND {IS_ALIVE}"
    );
    other(shared, link.first(&sql, &[&id.0, &tenant.as_str()]).await?)
}

pub(super) async fn add_sandbox(shared: &Shared, tenant: &TenantId, id: &str) -> Result<(), Error> {
    lock(&shared.sandboxes).insert(id.to_owned(), tenant.to_string());
    let link = &*shared.pool.look_up().await?;
    let (ids, tenants) = (vec![id], vec![tenant.as_str()]);
    link.execute(ADD_SANDBOXES, &[&ids, &tenants, &shared.process()]).await?;
    Ok(())
}

pub(super) async fn remove_sandbox(shared: &Shared, id: &str) -> Result<(), Error> {
    lock(&shared.sandboxes).remove(id);
    let link = &*shared.pool.look_up().await?;
    link.execute("DELETE FROM sandboxes WHERE id = $1", &[&id]).await?;
    Ok(())
}

pub(super) async fn owner_of_sandbox(
    shared: &Shared,
    tenant: &TenantId,
    id: &str,
) -> Result<Option<Process>, Error> {
    let link = &*shared.pool.read_for(tenant.as_str()).await?;
    let sql = format!(
        "SELECT {COLUMNS} FROM sandboxes JOIN processes ON processes.id = sandboxes.owner
         WHERE sandboxes.id = $1 AND sandboxes.tenant = $2 AND {IS_ALIVE}"
    );
    other(shared, link.first(&sql, &[&id, &tenant.as_str()]).await?)
}

/// The process of a row, unless it is this one.
fn other(shared: &Shared, row: Option<Row>) -> Result<Option<Process>, Error> {
    let found = row.map(|row| process(shared, &row)).transpose()?;
    Ok(found.filter(|process| !process.is_own))
}

fn process(shared: &Shared, row: &Row) -> Result<Process, Error> {
    let id: i64 = row.try_get(0)?;
    let policy: Option<&[u8]> = row.try_get(5)?;
    let info = ProcessInfo {
        address: row.try_get(2)?,
        // A role that a newer program knows counts as the usual one.
        role: row.try_get::<_, &str>(3)?.parse().unwrap_or_default(),
        version: row.try_get(4)?,
        policy: policy.and_then(|bytes| bytes.try_into().ok()).map(Digest::from_bytes),
    };
    let started_at = Timestamp::from_micros(row.try_get(1)?);
    Ok(Process { id: id.cast_unsigned(), is_own: id == shared.process(), started_at, info })
}
