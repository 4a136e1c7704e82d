//! The contract, on PostgreSQL.

use std::sync::Arc;

use ringfence_store::{Store, contract};

use super::{cluster, database_on, pair::Pair, process};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_contract_holds_twice_on_one_database() {
    let folder = tempfile::tempdir().unwrap();
    let name = database_on(cluster()).await;
    for _ in 0..2 {
        let store = process(&cluster().url(&name), folder.path()).await;
        let later = process(&cluster().url(&name), folder.path()).await;
        contract::run(store.clone(), later.clone()).await;
        store.close().await;
        later.close().await;
    }
}

/// Every sentence about one store, with its reads and writes spread over two processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_holds_for_two_processes_that_share_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let name = database_on(cluster()).await;
    let one: Arc<dyn Store> = process(&cluster().url(&name), folder.path()).await;
    let other: Arc<dyn Store> = process(&cluster().url(&name), folder.path()).await;
    let pair: Arc<dyn Store> = Arc::new(Pair::new(one, other));
    contract::sign(&pair).await;
    macro_rules! sentences {
        (
            store { $($module:ident: $($sentence:ident)*;)* }
            stores { $($pairs:ident: $($pair:ident)*;)* }
        ) => {
            $($(contract::$sentence(&pair).await;)*)*
        };
    }
    ringfence_store::contract_sentences!(sentences);
}
