//! What the ledger says of keys and approvals, folded from its entries in their order.
//!
//! Rows of keys and approvals are what a server acts by; the entries are what was signed. Whoever holds
//! the rows against this finds every row that was changed, added or taken away outside a server.
//!
//! Invariant: only the text of an entry counts, never what is kept beside it: the text is what the tree
//! commits to.

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

/// A key of the API, as the entries say it.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyClaim {
    /// The entry that made it.
    pub entry: u64,
    /// Whose it is.
    pub tenant: TenantId,
    /// When it was made.
    pub at: Timestamp,
    /// What was said of it then.
    pub said: KeyChange,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// An approval, as the entries say it. Small, because there may be many: the rest is in its entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalClaim {
    /// The entry that gave it.
    pub entry: u64,
    /// Of the approval, as [`ApprovalClaim::digest`] says it.
    pub content: Digest,
    /// When it was revoked, and by which key.
    pub revoked: Option<(Timestamp, KeyId)>,
    /// Calls that ended and ran by it.
    pub used: u32,
}

impl ApprovalClaim {
    /// The digest of an approval, whoever wrote it down.
    pub fn digest(approval: &Approval) -> Digest {
        let text = serde_json::to_vec(approval).expect("plain data with text keys");
        Digest::of(&text)
    }
}

/// Keys and approvals as the entries of a ledger say them.
#[derive(Debug, Default)]
pub struct Authority {
    /// Keys of the API, by their names.
    pub keys: BTreeMap<KeyId, KeyClaim>,
    /// Approvals, by their names.
    pub approvals: BTreeMap<ApprovalId, ApprovalClaim>,
    /// Keys of the ledger itself, each with the entry that names it.
    pub signers: Vec<(u64, PublicKey)>,
}

#[derive(Deserialize)]
struct Told<T> {
    at: Timestamp,
    tenant: Option<TenantId>,
    said: T,
}

/// An approval that was given, or the word that one was taken back.
#[derive(Deserialize)]
#[serde(untagged)]
enum ApprovalEntry {
    Revoked { event: String, id: ApprovalId, by: KeyId },
    Given(Box<Approval>),
}

/// Of a receipt: by which approval the call was allowed, and when it began. One that was cancelled
/// before it began has used nothing.
#[derive(Deserialize)]
struct Ran {
    call: CallId,
    decision: Option<By>,
    started_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct By {
    approval: Option<ApprovalId>,
}

impl Authority {
    /// Takes the next entry: its index and its text.
    pub fn take(&mut self, index: u64, payload: &str) {
        if is_of(EntryKind::Call, payload) {
            self.ran(payload);
        } else if is_of(EntryKind::Key, payload) {
            self.key(index, payload);
        } else if is_of(EntryKind::Approval, payload) {
            self.approval(index, payload);
        } else if is_of(EntryKind::CheckpointKey, payload)
            && let Ok(Told::<LedgerKey> { said, .. }) = predicate(payload)
        {
            self.signers.push((index, said.public));
        }
    }

    fn key(&mut self, entry: u64, payload: &str) {
        let Ok(Told::<KeyChange> { at, tenant: Some(tenant), said }) = predicate(payload) else {
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
        let Ok(Told::<ApprovalEntry> { at, said, .. }) = predicate(payload) else { return };
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

/// The approval that a call used, the call, and when it began, if the entry is the receipt of a call
/// that ran by one.
pub fn approval_used_by(payload: &str) -> Option<(ApprovalId, CallId, Timestamp)> {
    // Nearly all receipts name none and need not be parsed.
    if !payload.contains("\"approval\":\"") || !is_of(EntryKind::Call, payload) {
        return None;
    }
    let Ran { call, decision, started_at } = predicate(payload).ok()?;
    Some((decision?.approval?, call, started_at?))
}

/// Whether an entry is of a kind, without parsing it. A quote inside a string is escaped, so the pattern
/// cannot be part of one.
fn is_of(kind: EntryKind, payload: &str) -> bool {
    let name = predicate_type(kind);
    let after = |at: usize| payload[at + FIELD.len()..].strip_prefix(name);
    payload.find(FIELD).and_then(after).is_some_and(|rest| rest.starts_with('"'))
}

/// What stands before the kind of an entry.
const FIELD: &str = "\"predicateType\":\"";

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
        // Whoever may choose words cannot choose what kind of entry they stand in.
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
