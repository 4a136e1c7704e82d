//! Keys.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use ringfence_types::{Digest, KeyId, Timestamp};
use uuid::Uuid;

use super::samples::{AT, about_key, key, tenant};
use crate::{EntryQuery, Error, Key, Repair, Scanned, Store, Visitor};

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
    let revoke = async |tenant, seconds| {
        let entry = about_key(&key);
        store.revoke_key(tenant, key.id, at(seconds), entry).await.expect("an answer")
    };
    assert!(!revoke(Some(&theirs), 1).await);
    assert_eq!(store.keys(Some(&mine)).await.expect("keys")[0].revoked_at, None);
    assert!(revoke(Some(&mine), 2).await);
    assert!(revoke(None, 3).await);
    let found = store.key_by_secret(key.secret).await.expect("an answer").expect("the key");
    assert_eq!(found.revoked_at, Some(at(2)));
    let unknown = KeyId(Uuid::now_v7());
    let entry = about_key(&key);
    assert!(!store.revoke_key(None, unknown, at(1), entry).await.expect("an answer"));
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
        let at = Timestamp::from_micros(AT + seconds);
        assert!(store.revoke_key(None, key.id, at, entry).await.expect("an answer"));
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

/// What a scan saw: entries in their order, and keys.
#[derive(Default)]
struct Saw(Mutex<(Vec<u64>, Vec<Key>)>);

impl Visitor for Saw {
    fn visit(&self, row: Scanned<'_>) {
        let mut saw = self.0.lock().expect("nobody panicked");
        match row {
            Scanned::Entry { index, .. } => saw.0.push(index),
            Scanned::Key(key) => saw.1.push(*key),
            Scanned::Approval(_) => {}
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
    let saw = saw.0.lock().expect("nobody panicked");
    assert_eq!(saw.0, (0..=before).collect::<Vec<_>>(), "every entry, in order");
    assert!(saw.1.contains(&put) && !saw.1.iter().any(|key| key.id == gone.id));
}
