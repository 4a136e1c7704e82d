//! Results that are remembered: an index from keys to calls, written by a batch.

use ringfence_types::{Digest, TenantId, Timestamp};
use tokio_postgres::Row;

use super::{
    pool::Pool,
    rows::{self, STORED, STORED_COLUMNS},
};
use crate::{Error, Remembered, encoding::Undecodable};

pub(super) async fn find(
    pool: &Pool,
    tenant: &TenantId,
    key: Digest,
    since: Timestamp,
) -> Result<Option<Remembered>, Error> {
    let link = &*pool.read_for(tenant.as_str()).await?;
    let stored = STORED.replacen(" FROM calls", ", ledger.position, ledger.leaf FROM calls", 1);
    let sql = format!(
        "{stored} JOIN memos ON memos.call = calls.seq AND memos.tenant = calls.tenant
             JOIN ledger ON ledger.call = calls.seq AND ledger.kind = 'call'
             WHERE memos.tenant = $1 AND memos.key = $2 AND memos.at > $3"
    );
    let key = key.as_bytes().as_slice();
    let row = link.first(&sql, &[&tenant.as_str(), &key, &since.as_micros()]).await?;
    row.map(|row| rows::whole(&row, ("calls", 5), remembered)).transpose()
}

fn remembered(row: &Row) -> Result<Remembered, Undecodable> {
    Ok(Remembered {
        call: rows::stored(row)?.call,
        entry: rows::unsigned(row, STORED_COLUMNS)?.wrapping_sub(1),
        leaf: rows::digest(row, STORED_COLUMNS + 1)?,
    })
}
