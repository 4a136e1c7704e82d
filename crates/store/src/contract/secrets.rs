//! Secrets of tenants, encrypted.

use std::sync::Arc;

use ringfence_types::{KeyId, SecretPlace, SecretRule, TenantId, Timestamp};
use uuid::Uuid;

use super::samples::{AT, tenant};
use crate::{SecretRow, SecretSeal, Store};

fn secret(tenant: &TenantId, name: &str, bytes: &[u8]) -> SecretRow {
    SecretRow {
        tenant: tenant.clone(),
        name: name.parse().expect("a name"),
        rule: SecretRule {
            tools: vec!["text.count".parse().expect("a tool")],
            hosts: vec!["GET api.example/v1".to_owned(), "*.b.example".to_owned()],
            place: SecretPlace::Header {
                name: "authorization".to_owned(),
                format: "Bearer {}".to_owned(),
            },
        },
        seal: SecretSeal { key: "0123456789abcdef".to_owned(), bytes: bytes.to_vec() },
        set_at: Timestamp::from_micros(AT),
        set_by: KeyId(Uuid::now_v7()),
    }
}

/// A secret reads back whole; a second one of the same name takes its place; tenants are walls.
pub async fn a_secret_reads_back_whole_until_it_is_removed(store: &Arc<dyn Store>) {
    let (one, other) = (tenant(), tenant());
    let rows = [secret(&one, "a.token", b"\0\xff"), secret(&one, "b-token", b"b")];
    for row in &rows {
        store.set_secret(row.clone()).await.expect("it is set");
    }
    let theirs = secret(&other, "a.token", b"theirs");
    store.set_secret(theirs.clone()).await.expect("it is set");
    let name = &rows[0].name;
    assert_eq!(store.secret(&one, name).await.expect("an answer"), Some(rows[0].clone()));
    assert_eq!(store.secret(&other, name).await.expect("an answer"), Some(theirs.clone()));
    assert_eq!(store.secret(&other, &rows[1].name).await.expect("an answer"), None);
    assert_eq!(store.secrets(Some(&one), None).await.expect("an answer"), rows);
    let after = Some((one.clone(), name.clone()));
    assert_eq!(store.secrets(Some(&one), after).await.expect("an answer"), rows[1..]);
    let place = SecretPlace::Query { name: "key".to_owned() };
    let mut next = secret(&one, "a.token", b"next");
    next.rule.place = place;
    store.set_secret(next.clone()).await.expect("it is set");
    assert_eq!(store.secret(&one, name).await.expect("an answer"), Some(next));
    assert!(store.remove_secret(&one, name).await.expect("an answer"));
    assert!(!store.remove_secret(&one, name).await.expect("an answer"));
    assert_eq!(store.secret(&one, name).await.expect("an answer"), None);
    assert_eq!(store.secret(&other, name).await.expect("an answer"), Some(theirs));
}

/// An encryption is replaced only if the row is as it was read.
pub async fn a_secret_that_changed_is_not_resealed(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let read = secret(&tenant, "token", b"first");
    store.set_secret(read.clone()).await.expect("it is set");
    let seal = SecretSeal { key: "fedcba9876543210".to_owned(), bytes: b"second".to_vec() };
    assert!(store.reseal_secret(read.clone(), seal.clone()).await.expect("an answer"));
    let resealed = SecretRow { seal: seal.clone(), ..read.clone() };
    let found = store.secret(&tenant, &read.name).await.expect("an answer");
    assert_eq!(found, Some(resealed.clone()));
    let third = SecretSeal { bytes: b"third".to_vec(), ..seal };
    assert!(!store.reseal_secret(read.clone(), third.clone()).await.expect("an answer"));
    assert_eq!(store.secret(&tenant, &read.name).await.expect("an answer"), Some(resealed.clone()));
    assert!(store.remove_secret(&tenant, &read.name).await.expect("an answer"));
    assert!(!store.reseal_secret(resealed, third).await.expect("an answer"));
}
