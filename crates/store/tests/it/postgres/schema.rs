//! Tables that are not there, too old or too new.

use ringfence_store::{Error, PostgresStore};

use super::{cluster, url};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_opens_only_on_tables_of_its_version_and_many_may_migrate_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let name = cluster().database().unwrap();
    let url = url(&cluster().url(&name));
    let open = async || PostgresStore::open(url.clone(), folder.path()).await;
    let refused = open().await;
    assert!(matches!(refused, Err(Error::Schema { found: 0, .. })), "{refused:?}");
    let migrations = (0..4).map(|_| {
        let url = url.clone();
        tokio::spawn(async move { PostgresStore::migrate(&url).await })
    });
    let mut made = 0;
    for migration in migrations.collect::<Vec<_>>() {
        let before = migration.await.expect("no panic").expect("a migration");
        made += usize::from(before == 0);
    }
    assert_eq!(made, 1, "one of them makes the tables");
    open().await.expect("a store").close().await;
    cluster().sql(&name, "UPDATE schema_version SET version = version + 1").unwrap();
    let refused = open().await;
    let is_newer = |found: u32, needed: u32| found == needed + 1;
    assert!(
        matches!(refused, Err(Error::Schema { found, needed }) if is_newer(found, needed)),
        "{refused:?}"
    );
    let refused = PostgresStore::migrate(&url).await;
    assert!(
        matches!(refused, Err(Error::Schema { found, needed }) if is_newer(found, needed)),
        "{refused:?}"
    );
}
