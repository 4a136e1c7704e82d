//! Keys.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use ringfence_types::{Digest, KeyId, Scope, Scopes, TenantId, Timestamp};
use uuid::Uuid;

use super::samples::{AT, about_key, key, tenant};
use crate::{EntryQuery, Error, Key, Repair, Revocation, Revoked, Scanned, Store, Visitor};

/// A key reads back as it was added, by its tenant and by its secret; never twice.
pub async fn a_key_reads_back_whole(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let (first, mut second) = (key(&tenant, "first"), key(&tenant, "second"));
    second.created_at = first.created_at.after(Duration::from_secs(1));
    (second.persona, second.created_by, second.expires_at) = (None, None, None);
    second.person = None;
    for key in [&second, &first] {
        store.add_key(key.clone(), about_key(key)).await.expect("a key");
    }
    let listed = store.keys(Some(&tenant)).await.expect("keys");
    assert_eq!(listed, [first.clone(), second.clone()], "oldest first");
    let everybodys = store.keys(None).await.expect("keys");
    assert!(everybodys.contains(&first) && everybodys.contains(&second));
    let found = store.key_by_secret(second.secret).await.expect("an answer");
    assert_eq!(found, Some(second));
    assert_eq!(store.key(first.id).await.expect("an answer"), Some(first.clone()));
    assert_eq!(store.key(KeyId(Uuid::now_v7())).await.expect("an answer"), None);
    assert_eq!(store.key_by_secret(Digest::of(b"none")).await.expect("an answer"), None);
    let again = store.add_key(first.clone(), about_key(&first)).await;
    assert!(matches!(again, Err(Error::Stale)), "expected stale, got {again:?}");
}

/// The first revocation stays on record; a key of another tenant is none.
pub async fn the_first_revocation_stays(store: &Arc<dyn Store>) {
    let (mine, theirs) = (tenant(), tenant());
    let key = key(&mine, "revoked");
    store.add_key(key.clone(), about_key(&key)).await.expect("a key");
    let at = |seconds| Timestamp::from_micros(AT + seconds);
    let revoke = async |tenant: Option<&TenantId>, seconds| {
        let revocation =
            Revocation { tenant: tenant.cloned(), ..revocation_of(key.id, at(seconds)) };
        store.revoke_key(revocation, about_key(&key)).await.expect("an answer")
    };
    assert_eq!(revoke(Some(&theirs), 1).await, Revoked::NotFound);
    assert_eq!(store.keys(Some(&mine)).await.expect("keys")[0].revoked_at, None);
    assert_eq!(revoke(Some(&mine), 2).await, Revoked::Done);
    assert_eq!(revoke(None, 3).await, Revoked::Done);
    let found = store.key_by_secret(key.secret).await.expect("an answer").expect("the key");
    assert_eq!(found.revoked_at, Some(at(2)));
    let unknown = KeyId(Uuid::now_v7());
    let revoked = store.revoke_key(revocation_of(unknown, at(1)), about_key(&key)).await;
    assert_eq!(revoked.expect("an answer"), Revoked::NotFound);
}

/// A revocation without a person.
pub(super) fn revocation_of(key: KeyId, at: Timestamp) -> Revocation {
    Revocation { key, tenant: None, at, keeps_admin_of: None }
}

/// The last admin key stays, also if two are revoked at once; one that is over does not count, and
/// other tenants do not matter.
pub async fn the_last_admin_key_stays(store: &Arc<dyn Store>) {
    let (mine, theirs) = (tenant(), tenant());
    let at = Timestamp::from_micros(AT + 5);
    let admin = |tenant: &TenantId, secret: &str, ends: Option<i64>| Key {
        scopes: Scopes::from(vec![Scope::Admin]),
        expires_at: ends.map(|micros| Timestamp::from_micros(AT + micros)),
        ..key(tenant, secret)
    };
    let (one, other) = (admin(&mine, "one", None), admin(&mine, "other", None));
    let others = [admin(&mine, "over", Some(5)), admin(&theirs, "theirs", None), key(&mine, "no")];
    for key in [&one, &other].into_iter().chain(&others) {
        store.add_key(key.clone(), about_key(key)).await.expect("a key");
    }
    let revoke = async |id| {
        let revocation = Revocation { keeps_admin_of: Some(mine.clone()), ..revocation_of(id, at) };
        store.revoke_key(revocation, about_key(&one)).await.expect("an answer")
    };
    let (first, second) = tokio::join!(revoke(one.id), revoke(other.id));
    let stays = match (first, second) {
        (Revoked::Done, Revoked::LastAdmin) => &other,
        (Revoked::LastAdmin, Revoked::Done) => &one,
        both => panic!("one of them stays: {both:?}"),
    };
    assert_eq!(revoke(stays.id).await, Revoked::LastAdmin);
    let kept = store.key(stays.id).await.expect("an answer").expect("the key");
    assert_eq!(kept.revoked_at, None);
    assert_eq!(revoke(others[2].id).await, Revoked::Done, "the control: not an admin key");
}

/// A key and its first revocation are on the ledger, each once; what was refused is not.
pub async fn a_key_and_its_end_are_on_the_ledger(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let key = key(&tenant, "told");
    let (made, ended) = (about_key(&key), about_key(&key));
    store.add_key(key.clone(), made.clone()).await.expect("a key");
    let again = store.add_key(key.clone(), about_key(&key)).await;
    assert!(matches!(again, Err(Error::Stale)), "expected stale, got {again:?}");
    for (seconds, entry) in [(1, ended.clone()), (2, about_key(&key))] {
        let revocation = revocation_of(key.id, Timestamp::from_micros(AT + seconds));
        let revoked = store.revoke_key(revocation, entry).await.expect("an answer");
        assert_eq!(revoked, Revoked::Done);
    }
    let kind = Some(ringfence_types::EntryKind::Key);
    let query = EntryQuery { tenant: Some(tenant), kind, limit: 99, ..EntryQuery::default() };
    let found = store.entries(query).await.expect("entries");
    let found: Vec<_> = found.into_iter().map(|placed| placed.sealed).collect();
    assert_eq!(found, [made, ended]);
}

/// The last use of a key never moves back, and unknown keys are ignored.
pub async fn a_key_is_touched_forwards(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let key = key(&tenant, "touched");
    store.add_key(key.clone(), about_key(&key)).await.expect("a key");
    for (touch, expected) in [(5, 5), (3, 5), (8, 8)] {
        let at = Timestamp::from_micros(AT + touch);
        let used = vec![(KeyId(Uuid::now_v7()), at), (key.id, at)];
        store.touch_keys(used).await.expect("a touch");
        let found = store.keys(Some(&tenant)).await.expect("keys")[0].last_used_at;
        assert_eq!(found, Some(Timestamp::from_micros(AT + expected)));
    }
}

/// Result of a scan: entries in their order, and keys.
#[derive(Default)]
struct Saw(Mutex<(Vec<u64>, Vec<Key>)>);

impl Visitor for Saw {
    fn visit(&self, row: Scanned<'_>) {
        let mut saw = self.0.lock().expect("no thread panicked");
        match row {
            Scanned::Entry { index, .. } => saw.0.push(index),
            Scanned::Key(key) => saw.1.push(*key),
            Scanned::Approval(_) | Scanned::Checkpoint(_) => {}
            Scanned::Unreadable(row) => panic!("{row}"),
        }
    }
}

/// A repair changes rows and appends its entries together; a scan shows both, of one moment.
pub async fn a_repair_shares_the_commit_of_its_entries(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let (kept, gone) = (key(&tenant, "kept by a repair"), key(&tenant, "removed by a repair"));
    for key in [&kept, &gone] {
        store.add_key(key.clone(), about_key(key)).await.expect("a key");
    }
    let before = *store.grown().borrow();
    let put = Key { label: "another".to_owned(), ..kept.clone() };
    let repairs = vec![Repair::PutKey(Box::new(put.clone())), Repair::RemoveKey(gone.id)];
    store.repair(repairs, vec![about_key(&kept)]).await.expect("a repair");
    assert_eq!(*store.grown().borrow(), before + 1);
    let listed = store.keys(Some(&tenant)).await.expect("keys");
    assert_eq!(listed, std::slice::from_ref(&put));
    let saw = Arc::new(Saw::default());
    store.scan(saw.clone()).await.expect("a scan");
    let saw = saw.0.lock().expect("no thread panicked");
    assert_eq!(saw.0, (0..=before).collect::<Vec<_>>(), "every entry, in order");
    assert!(saw.1.contains(&put) && !saw.1.iter().any(|key| key.id == gone.id));
}
