//! Large blobs in a real S3 server, and in a directory: one contract.

use std::sync::Arc;

use ringfence_store::{
    BlobDirectory, PostgresStore, S3Blobs, S3Config, Store, check_large_blobs, contract,
};
use ringfence_testkit::{S3, s3, server};

use super::{cluster, database_on};

/// A server, and the place of blobs in it; none if the server is not there and tests may skip.
fn server(test: &str) -> Option<(S3, S3Config)> {
    let program = server::VERSITYGW.program_or_skip(test)?;
    let server = S3::start(&program).expect("an S3 server");
    let mut config: S3Config = format!("s3://{}/large", s3::BUCKET).parse().expect("an address");
    config.endpoint = Some(server.url());
    config.credentials = Some((s3::KEY_ID.to_owned(), s3::SECRET.to_owned()));
    Some((server, config))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_keeps_large_blobs() {
    let folder = tempfile::tempdir().unwrap();
    let directory = BlobDirectory::open(folder.path()).unwrap();
    contract::large_blobs::keep_bytes_by_digest(Arc::new(directory)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_s3_server_keeps_large_blobs() {
    let Some((_server, config)) = server("an_s3_server_keeps_large_blobs") else { return };
    let store = S3Blobs::open(&config).unwrap();
    contract::large_blobs::keep_bytes_by_digest(Arc::new(store)).await;
}

/// All sentences about blobs, with small ones in the database and large ones in S3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blobs_in_the_database_and_in_s3_are_one_store() {
    let test = "blobs_in_the_database_and_in_s3_are_one_store";
    let Some((mut server, config)) = server(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let name = database_on(cluster()).await;
    let large = Arc::new(S3Blobs::open(&config).unwrap());
    let url = cluster().url(&name).parse().unwrap();
    let opened = PostgresStore::open_with(url, large.clone(), folder.path()).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(opened);
    contract::sign(&store).await;
    contract::bytes_are_found_by_digest_in_parts(&store).await;
    contract::what_is_refused_leaves_no_bytes(&store).await;
    contract::a_blob_stays_until_its_last_owner_lets_go(&store).await;
    contract::a_blob_that_is_used_again_stays(&store).await;
    contract::a_call_owns_the_output_that_it_repeats(&store).await;
    contract::erased_records_go_and_entries_stay(&store).await;
    assert!(!server.objects("large").is_empty(), "large blobs are objects");
    // What was put is there after the server was killed.
    server.process().kill();
    check_large_blobs(large.as_ref()).await.expect_err("no server");
    server.restart().unwrap();
    contract::bytes_are_found_by_digest_in_parts(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_secret_or_bucket_is_named() {
    let Some((_server, config)) = server("a_wrong_secret_or_bucket_is_named") else { return };
    let id = s3::KEY_ID.to_owned();
    let foreign = S3Config { credentials: Some((id, "wrong".to_owned())), ..config.clone() };
    let missing = S3Config { bucket: "no-such-bucket".to_owned(), ..config };
    for config in [foreign, missing] {
        let store = S3Blobs::open(&config).unwrap();
        let error = check_large_blobs(&store).await.expect_err("it cannot be used");
        assert!(!error.to_string().is_empty());
    }
}
