//! State of keys and approvals according to the ledger, folded from its entries in order.
//!
//! A server acts by the rows of keys and approvals; the entries are what was signed. Comparing the
//! rows with this state finds every row that was changed, added or removed outside a server.
//!
//! Invariant: only the text of an entry counts, never the columns beside it: the tree commits to
//! the text.

use std::collections::BTreeMap;

use ringfence_types::{
    Approval, ApprovalId, CallId, Digest, EntryKind, KeyId, TenantId, Timestamp, predicate,
};
use serde::Deserialize;

use crate::{
    entry::{KeyChange, LedgerKey},
    key::PublicKey,
    statement::predicate_type,
};

/// State of an API key according to the entries.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyClaim {
    /// Index of the entry about its creation.
    pub entry: u64,
    /// Tenant of the key.
    pub tenant: TenantId,
    /// Creation time.
    pub at: Timestamp,
    /// The creation entry's statement.
    pub said: KeyChange,
    /// Time of revocation.
    pub revoked_at: Option<Timestamp>,
}

/// State of an approval according to the entries. Small, because there may be many: the rest is in
/// its entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalClaim {
    /// Index of the entry that gave it.
    pub entry: u64,
    /// Digest of the approval, as of [`ApprovalClaim::digest`].
    pub content: Digest,
    /// Time of revocation, and the revoking key.
    pub revoked: Option<(Timestamp, KeyId)>,
    /// Ended calls that ran by it.
    pub used: u32,
}

impl ApprovalClaim {
    /// The digest of an approval, from an entry or from a row.
    pub fn digest(approval: &Approval) -> Digest {
        let text = serde_json::to_vec(approval).expect("plain data with text keys");
        Digest::of(&text)
    }
}

/// State of keys and approvals according to the entries of a ledger.
#[derive(Debug, Default)]
pub struct Authority {
    /// API keys by id.
    pub keys: BTreeMap<KeyId, KeyClaim>,
    /// Approvals by id.
    pub approvals: BTreeMap<ApprovalId, ApprovalClaim>,
    /// Keys of the ledger itself, each with the index of the entry that names it.
    pub signers: Vec<(u64, PublicKey)>,
}

#[derive(Deserialize)]
struct Predicate<T> {
    at: Timestamp,
    tenant: Option<TenantId>,
    said: T,
}

/// An approval that was given, or its revocation.
#[derive(Deserialize)]
#[serde(untagged)]
enum ApprovalEntry {
    Revoked { event: String, id: ApprovalId, by: KeyId },
    Given(Box<Approval>),
}

/// Part of a receipt: the approval that allowed the call, and the start time. A call that was
/// cancelled before its start has used no approval.
#[derive(Deserialize)]
struct ApprovalUse {
    call: CallId,
    decision: Option<UsedApproval>,
    started_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct UsedApproval {
    approval: Option<ApprovalId>,
}

impl Authority {
    /// Applies the next entry: its index and its text.
    pub fn take(&mut self, index: u64, payload: &str) {
        if is_of(EntryKind::Call, payload) {
            self.ran(payload);
        } else if is_of(EntryKind::Key, payload) {
            self.key(index, payload);
        } else if is_of(EntryKind::Approval, payload) {
            self.approval(index, payload);
        } else if is_of(EntryKind::CheckpointKey, payload)
            && let Ok(Predicate::<LedgerKey> { said, .. }) = predicate(payload)
        {
            self.signers.push((index, said.public));
        }
    }

    fn key(&mut self, entry: u64, payload: &str) {
        let Ok(Predicate::<KeyChange> { at, tenant: Some(tenant), said }) = predicate(payload)
        else {
            return;
        };
        if said.event == "revoked" {
            if let Some(claim) = self.keys.get_mut(&said.key) {
                claim.revoked_at.get_or_insert(at);
            }
            return;
        }
        let claim = KeyClaim { entry, tenant, at, said, revoked_at: None };
        self.keys.entry(claim.said.key).or_insert(claim);
    }

    fn approval(&mut self, entry: u64, payload: &str) {
        let Ok(Predicate::<ApprovalEntry> { at, said, .. }) = predicate(payload) else { return };
        match said {
            ApprovalEntry::Revoked { event, id, by } => {
                if event == "revoked"
                    && let Some(claim) = self.approvals.get_mut(&id)
                {
                    claim.revoked.get_or_insert((at, by));
                }
            }
            ApprovalEntry::Given(approval) => {
                let content = ApprovalClaim::digest(&approval);
                let claim = ApprovalClaim { entry, content, revoked: None, used: 0 };
                self.approvals.entry(approval.id).or_insert(claim);
            }
        }
    }

    fn ran(&mut self, payload: &str) {
        let used = approval_used_by(payload).and_then(|(id, ..)| self.approvals.get_mut(&id));
        if let Some(claim) = used {
            claim.used += 1;
        }
    }
}

/// The approval that a call used, the call, and its start time, if the entry is the receipt of a
/// call that ran by an approval.
pub fn approval_used_by(payload: &str) -> Option<(ApprovalId, CallId, Timestamp)> {
    // Nearly all receipts name no approval and need no parsing.
    if !payload.contains("\"approval\":\"") || !is_of(EntryKind::Call, payload) {
        return None;
    }
    let ApprovalUse { call, decision, started_at } = predicate(payload).ok()?;
    Some((decision?.approval?, call, started_at?))
}

/// Whether an entry is of a kind, without parsing it. Quotes inside strings are escaped, so the
/// pattern cannot occur in one.
fn is_of(kind: EntryKind, payload: &str) -> bool {
    let name = predicate_type(kind);
    let after = |at: usize| payload[at + KIND_FIELD.len()..].strip_prefix(name);
    payload.find(KIND_FIELD).and_then(after).is_some_and(|rest| rest.starts_with('"'))
}

/// Text in front of the kind of an entry.
const KIND_FIELD: &str = "\"predicateType\":\"";

#[cfg(test)]
mod tests {
    use ringfence_types::{Scope, Scopes};
    use uuid::Uuid;

    use super::*;
    use crate::entry::{Entry, Maintenance};

    fn change(event: &str, label: &str) -> KeyChange {
        KeyChange {
            event: event.to_owned(),
            key: KeyId(Uuid::from_u128(1)),
            label: label.to_owned(),
            scopes: Scopes::from(vec![Scope::Read]),
            persona: None,
            person: None,
            expires_at: None,
            by: None,
            fingerprint: None,
        }
    }

    fn entry(event: &str, label: &str, at: i64) -> String {
        let at = Timestamp::from_micros(at);
        Entry::key("acme".parse().unwrap(), at, &change(event, label)).payload
    }

    #[test]
    fn a_key_is_what_its_first_entry_says_and_revoked_when_first_revoked() {
        let mut authority = Authority::default();
        for (index, payload) in [
            entry("created", "a", 5),
            entry("created", "b", 6),
            entry("revoked", "a", 7),
            entry("revoked", "a", 8),
        ]
        .iter()
        .enumerate()
        {
            authority.take(index as u64, payload);
        }
        let claim = &authority.keys[&KeyId(Uuid::from_u128(1))];
        assert_eq!((claim.entry, claim.said.label.as_str()), (0, "a"));
        assert_eq!(claim.revoked_at, Some(Timestamp::from_micros(7)));
    }

    #[test]
    fn text_inside_an_entry_is_no_entry() {
        let mut authority = Authority::default();
        // A text chosen by a client cannot change the kind of its entry.
        let before = Some(entry("created", "a", 5));
        let at = Timestamp::from_micros(9);
        let change = Maintenance::BeganAnew { before };
        authority.take(0, &Entry::maintenance("default".parse().unwrap(), at, &change).payload);
        assert!(authority.keys.is_empty());
        let label = "\"predicateType\":\"https://ringfence.dev/attestation/call/v1\"";
        authority.take(1, &entry("created", label, 5));
        assert_eq!(authority.keys.len(), 1);
    }
}
