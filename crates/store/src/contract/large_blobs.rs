//! Stores of large blobs.

use std::{io::ErrorKind, sync::Arc};

use ringfence_types::Digest;
use uuid::Uuid;

use crate::{LargeBlobs, check_large_blobs};

/// Bytes that were not put before, of this length.
fn fresh(length: usize) -> Vec<u8> {
    let mut bytes = Uuid::now_v7().as_bytes().to_vec();
    bytes.extend((0..length).map(|index| (index % 251) as u8));
    bytes.truncate(length.max(16));
    bytes
}

/// The contract of [`LargeBlobs`], executable.
pub async fn keep_bytes_by_digest(store: Arc<dyn LargeBlobs>) {
    check_large_blobs(store.as_ref()).await.expect("it can be used");
    // The largest is put in parts, where a store has parts.
    for length in [16, 300_000, (8 << 20) + 1] {
        let bytes = fresh(length);
        let (digest, size) = (Digest::of(&bytes), bytes.len() as u64);
        let read = async |start, length| store.read(digest, start, length).await;
        let missing = read(0, 1).await.expect_err("it is not there yet");
        assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing:?}");
        store.remove(digest).await.expect("nothing to remove");
        // Several at once, whole for each reader.
        let puts: Vec<_> = (0..3)
            .map(|_| {
                let (store, bytes) = (Arc::clone(&store), bytes.clone());
                tokio::spawn(async move {
                    store.put(digest, bytes.clone()).await.expect("it is put");
                    let all = store.read(digest, 0, bytes.len() as u64).await;
                    assert!(all.expect("it is there") == bytes, "whole");
                })
            })
            .collect();
        for put in puts {
            put.await.expect("it does not panic");
        }
        assert_eq!(read(3, 5).await.expect("a part"), bytes[3..8]);
        assert_eq!(read(size - 2, 2).await.expect("the end"), bytes[bytes.len() - 2..]);
        assert_eq!(read(size, 0).await.expect("nothing"), [0; 0]);
        read(size - 2, 3).await.expect_err("there are only two");
        store.remove(digest).await.expect("a removal");
        let missing = read(0, 1).await.expect_err("it is removed");
        assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing:?}");
        store.put(digest, bytes).await.expect("it may come again");
        store.remove(digest).await.expect("a removal");
    }
}
