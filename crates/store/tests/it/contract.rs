//! Each sentence of the contract, on a store of its own.

use std::{path::Path, sync::Arc};

use ringfence_store::{Store, contract};

use crate::support::{later, open};

macro_rules! sentences {
    (
        store { $($module:ident: $($sentence:ident)*;)* }
        stores { $($pairs:ident: $($pair:ident)*;)* }
    ) => {
        $(mod $module {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $sentence() {
                let folder = tempfile::tempdir().unwrap();
                let (_db, store) = crate::support::open(folder.path()).await;
                ringfence_store::contract::$sentence(&store).await;
            }
        )*})*
        $(mod $pairs {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $pair() {
                let folder = tempfile::tempdir().unwrap();
                let (store, later) = super::two(folder.path()).await;
                ringfence_store::contract::$pair(&store, &later).await;
            }
        )*})*
    };
}

ringfence_store::contract_sentences!(sentences);

/// A store, and the same database as another process sees it that was started later.
async fn two(folder: &Path) -> (Arc<dyn Store>, Arc<dyn Store>) {
    let (db, store) = open(folder).await;
    (store, later(&db, folder).await)
}

/// A store with a past keeps it as well as a fresh one; so nothing depends on being alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_contract_holds_twice_on_one_store_and_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let (store, later) = two(folder.path()).await;
        contract::run(store, later).await;
    }
}

/// Without a checkpoint in the commit nothing would show that it was changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_without_a_signature_needs_a_checkpoint_signer() {
    use ringfence_types::{About, EntryKind, Sealed, Timestamp};
    let folder = tempfile::tempdir().unwrap();
    let (_db, store) = open(folder.path()).await;
    let about = About::server(Timestamp::from_micros(0));
    let signed = contract::samples::sealed(EntryKind::Tool, about, &1);
    let bare = Sealed { signature: None, ..signed.clone() };
    store.append(vec![signed.clone(), bare]).await.expect_err("one of them is not signed");
    store.append(vec![signed]).await.expect("the control");
}
