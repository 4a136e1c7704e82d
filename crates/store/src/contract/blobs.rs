//! Bytes by digest.

use std::sync::Arc;

use ringfence_types::Digest;
use uuid::Uuid;

use super::samples::{accepted, finished, in_state, record, tenant};
use crate::{Error, Store, Version};

/// Bytes that nobody stored before, of this length or a little more.
fn fresh(length: usize) -> Vec<u8> {
    let mut bytes = Uuid::now_v7().as_bytes().to_vec();
    bytes.extend((0..length).map(|index| (index % 251) as u8));
    bytes
}

/// Bytes are found by their digest, whole or in part, whatever their size.
pub async fn bytes_are_found_by_digest_in_parts(store: &Arc<dyn Store>) {
    let blobs: Vec<_> = [0, 100, 16 << 10, 17 << 10, 300_000].map(fresh).to_vec();
    for _ in 0..2 {
        let mut step = record(&accepted(&tenant()), None);
        step.blobs = blobs.clone();
        store.record(step).await.expect("a step");
    }
    for blob in blobs {
        let (digest, length) = (Digest::of(&blob), blob.len() as u64);
        let read = async |offset, limit| store.blob(digest, offset, limit).await.expect("bytes");
        assert_eq!(read(0, u64::MAX).await.as_deref(), Some(&blob[..]));
        assert_eq!(read(3, 5).await.as_deref(), Some(&blob[3..8]));
        assert_eq!(read(length - 2, 99).await.as_deref(), Some(&blob[blob.len() - 2..]));
        assert_eq!(read(length + 9, 9).await, Some(Vec::new()));
        assert_eq!(read(u64::MAX, u64::MAX).await, Some(Vec::new()));
        assert_eq!(read(1, 0).await, Some(Vec::new()));
    }
    let unknown = Digest::of(&fresh(9));
    assert_eq!(store.blob(unknown, 0, 9).await.expect("an answer"), None);
}

/// A record that is refused leaves none of its bytes, unless somebody else's record has them.
pub async fn what_is_refused_leaves_no_bytes(store: &Arc<dyn Store>) {
    let call = accepted(&tenant());
    store.record(record(&call, None)).await.expect("a step");
    for length in [100, 100_000] {
        let blob = fresh(length);
        let digest = Digest::of(&blob);
        let mut stale = record(&in_state(&call, finished()), Some(Version(9)));
        stale.blobs = vec![blob.clone()];
        let answer = store.record(stale.clone()).await;
        assert!(matches!(answer, Err(Error::Stale)), "expected stale, got {answer:?}");
        assert_eq!(store.blob(digest, 0, 9).await.expect("an answer"), None);

        let mut good = record(&accepted(&tenant()), None);
        good.blobs = vec![blob.clone()];
        store.record(good).await.expect("a step");
        store.record(stale).await.expect_err("stale as before");
        assert_eq!(store.blob(digest, 0, u64::MAX).await.expect("bytes"), Some(blob));
    }
}
