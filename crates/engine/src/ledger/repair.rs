//! Repair of rows of keys and approvals from the ledger. Where the ledger does not have enough to
//! restore a row, the row loses power and never gains any.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use ringfence_ledger::{Entry, KeyChange, KeyClaim, Maintenance, approval_used_by};
use ringfence_store::{Error, Key, Repair, Scanned, Spend, Store, Visitor};
use ringfence_types::{ApprovalId, CallId, Digest, KeyId, TenantId, Timestamp};

use super::{
    Ledger,
    log_scan::{Difference, DifferingRow, LogScan, given},
};

/// Differences that the entry about a repair lists; it also says how many there were.
const MAX_NAMED: usize = 100;

impl Ledger {
    /// Sets every differing row to the ledger's statement, and records the repair under the
    /// operator's tenant. Returns the differences.
    pub async fn repair_rows(
        &self,
        operator: TenantId,
        at: Timestamp,
    ) -> Result<Vec<Difference>, Error> {
        let mut told = Vec::new();
        // A pass is bounded, so there may be several; the last one repairs nothing.
        loop {
            let scan = LogScan::run(self.store(), &[]).await?;
            if scan.differing.is_empty() {
                return Ok(told);
            }
            let differences = scan.differences(self.store()).await?;
            let (repairs, mut entries) = self.plan(&scan, at).await?;
            let rows = differences.iter().take(MAX_NAMED).map(ToString::to_string).collect();
            let count = differences.len() as u64;
            let change = Maintenance::RowsRepaired { differences: count, rows };
            entries.push(Entry::maintenance(operator.clone(), at, &change));
            let guard = self.signing_guard().await;
            let sealed = entries.into_iter().map(|entry| guard.seal(entry));
            let sealed = sealed.collect::<Result<_, _>>()?;
            self.store().repair(repairs, sealed).await?;
            told.extend(differences);
        }
    }

    async fn plan(
        &self,
        scan: &LogScan,
        at: Timestamp,
    ) -> Result<(Vec<Repair>, Vec<Entry>), Error> {
        let (mut repairs, mut entries, mut unused) = (Vec::new(), Vec::new(), BTreeSet::new());
        for row in &scan.differing {
            match row {
                DifferingRow::Key { id, claim: None, .. } => repairs.push(Repair::RemoveKey(*id)),
                DifferingRow::Key { claim: Some(claim), row, .. } => {
                    put_key(claim, row.as_deref(), at, &mut repairs, &mut entries);
                }
                DifferingRow::Approval { id, .. } => {
                    repairs.push(self.approval(scan, *id).await?);
                    unused.insert(*id);
                }
                DifferingRow::Unreadable(row) if row.table == "keys" => {
                    let Ok(id) = row.id.parse::<KeyId>() else { return Err(beyond(row)) };
                    match scan.authority.keys.get(&id) {
                        Some(claim) => put_key(claim, None, at, &mut repairs, &mut entries),
                        None => repairs.push(Repair::RemoveKey(id)),
                    }
                }
                DifferingRow::Unreadable(row) => {
                    let Ok(id) = row.id.parse::<ApprovalId>() else { return Err(beyond(row)) };
                    repairs.push(self.approval(scan, id).await?);
                }
            }
        }
        let uses = uses_of(self.store(), unused).await?;
        repairs.extend(uses.into_iter().map(|(call, spend)| Repair::AddUse(call, spend)));
        // An unknown row may hold the secret of a key that must be restored, so removals come
        // first.
        repairs.sort_by_key(|repair| !matches!(repair, Repair::RemoveKey(_)));
        Ok((repairs, entries))
    }

    async fn approval(&self, scan: &LogScan, id: ApprovalId) -> Result<Repair, Error> {
        let Some(claim) = scan.authority.approvals.get(&id) else {
            return Ok(Repair::RemoveApproval(id));
        };
        let approval = given(self.store(), claim.entry).await?.ok_or_else(super::damaged)?;
        Ok(Repair::SetApproval { approval: Box::new(approval), revoked: claim.revoked })
    }
}

/// The restored row of a key. The ledger has no secrets: a key whose secret is lost or replaced
/// stays as a revoked key, so that its approvals do not count.
fn put_key(
    claim: &KeyClaim,
    row: Option<&Key>,
    at: Timestamp,
    repairs: &mut Vec<Repair>,
    entries: &mut Vec<Entry>,
) {
    let KeyClaim { tenant, said, .. } = claim;
    let is_own = |row: &&Key| {
        said.fingerprint.is_none_or(|known| known == KeyChange::fingerprint_of(row.secret))
    };
    let row = row.filter(is_own);
    let is_lost = row.is_none() && claim.revoked_at.is_none();
    if is_lost {
        let revoked = KeyChange { event: "revoked".to_owned(), by: None, ..said.clone() };
        entries.push(Entry::key(tenant.clone(), at, &revoked));
    }
    repairs.push(Repair::PutKey(Box::new(Key {
        id: said.key,
        tenant: tenant.clone(),
        persona: said.persona.clone(),
        person: said.person.clone(),
        label: said.label.clone(),
        prefix: row.map_or_else(String::new, |row| row.prefix.clone()),
        // Matches no secret: real secrets begin otherwise.
        secret: row
            .map_or_else(|| Digest::of(format!("none {}", said.key).as_bytes()), |row| row.secret),
        scopes: said.scopes.clone(),
        created_at: claim.at,
        created_by: said.by,
        expires_at: said.expires_at,
        revoked_at: claim.revoked_at.or(is_lost.then_some(at)),
        last_used_at: row.and_then(|row| row.last_used_at),
    })));
}

/// A row without a valid id cannot be addressed, and so not repaired.
fn beyond(row: &ringfence_store::Unreadable) -> Error {
    Error::Backend { doing: "repair a row without a valid id", source: Box::new(row.clone()) }
}

/// Calls that used these approvals, by their receipts.
async fn uses_of(
    store: &dyn Store,
    approvals: BTreeSet<ApprovalId>,
) -> Result<Vec<(CallId, Spend)>, Error> {
    if approvals.is_empty() {
        return Ok(Vec::new());
    }
    let uses = Arc::new(Uses { approvals, found: Mutex::default() });
    store.scan(uses.clone()).await?;
    let found = std::mem::take(&mut *uses.found.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(found)
}

struct Uses {
    approvals: BTreeSet<ApprovalId>,
    found: Mutex<Vec<(CallId, Spend)>>,
}

impl Visitor for Uses {
    fn visit(&self, row: Scanned<'_>) {
        let Scanned::Entry { payload, .. } = row else { return };
        let Some((approval, call, at)) = approval_used_by(payload) else { return };
        if self.approvals.contains(&approval) {
            let spend = Spend { approval, at, content: None };
            self.found.lock().unwrap_or_else(PoisonError::into_inner).push((call, spend));
        }
    }
}
