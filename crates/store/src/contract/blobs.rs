//! Bytes by digest.

use std::{sync::Arc, time::Duration};

use ringfence_types::{CallId, Digest, Memoised, State};
use uuid::Uuid;

use super::samples::{accepted, finished, in_state, record, tenant};
use crate::{BlobCount, BlobOwner, Error, Store, Version};

/// Bytes that were not stored before, of this length or a little more.
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

/// A record that is refused leaves none of its bytes, unless another record has them.
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

/// Sizes on both sides of every bound above which bytes are kept elsewhere.
const SIZES: [usize; 3] = [100, 100_000, 300_000];

/// Records a call with blobs; gives it as their owner.
async fn owner(store: &Arc<dyn Store>, blobs: &[Vec<u8>]) -> BlobOwner {
    let call = accepted(&tenant());
    let mut step = record(&call, None);
    step.blobs = blobs.to_vec();
    store.record(step).await.expect("a step");
    BlobOwner::Call(call.asked.id)
}

async fn is_kept(store: &Arc<dyn Store>, blob: &[u8]) -> bool {
    let found = store.blob(Digest::of(blob), 0, u64::MAX).await.expect("an answer");
    assert!(found.as_deref().is_none_or(|found| found == blob), "whole or not at all");
    found.is_some()
}

/// Removes all that has no owner.
async fn collect(store: &Arc<dyn Store>) -> BlobCount {
    store.collect_blobs(Duration::ZERO, crate::PAGE).await.expect("a collection")
}

/// A blob stays as long as it has an owner, and then as long as is asked for.
pub async fn a_blob_stays_until_its_last_owner_lets_go(store: &Arc<dyn Store>) {
    collect(store).await;
    let blobs = SIZES.map(fresh);
    let bytes: u64 = blobs.iter().map(|blob| blob.len() as u64).sum();
    let (one, other) = (owner(store, &blobs).await, owner(store, &blobs).await);
    let mut expected: Vec<_> =
        blobs.iter().map(|blob| (Digest::of(blob), blob.len() as u64)).collect();
    expected.sort_unstable();
    assert_eq!(store.blobs_of(one).await.expect("blobs"), expected);
    let release = async |owner| store.release_blobs(owner).await.expect("a release");
    assert_eq!(release(one).await, BlobCount::default(), "the other has them");
    assert_eq!(store.blobs_of(one).await.expect("blobs"), []);
    assert_eq!(collect(store).await, BlobCount::default());
    assert_eq!(release(other).await, BlobCount { blobs: 3, bytes });
    assert_eq!(release(other).await, BlobCount::default(), "once");
    let later = store.collect_blobs(Duration::from_secs(3_600), crate::PAGE).await;
    assert_eq!(later.expect("a collection"), BlobCount::default());
    for blob in &blobs {
        assert!(is_kept(store, blob).await);
    }
    assert_eq!(collect(store).await, BlobCount { blobs: 3, bytes });
    for blob in &blobs {
        assert!(!is_kept(store, blob).await);
    }
    // The same bytes may come again.
    let again = owner(store, &blobs).await;
    assert_eq!(store.blobs_of(again).await.expect("blobs"), expected);
    for blob in &blobs {
        assert!(is_kept(store, blob).await);
    }
}

/// A blob that gets an owner again before it is collected stays.
pub async fn a_blob_that_is_used_again_stays(store: &Arc<dyn Store>) {
    let blobs = SIZES.map(fresh);
    let one = owner(store, &blobs).await;
    assert_eq!(store.release_blobs(one).await.expect("a release").blobs, 3);
    let other = owner(store, &blobs).await;
    collect(store).await;
    for blob in &blobs {
        assert!(is_kept(store, blob).await);
    }
    assert_eq!(store.blobs_of(other).await.expect("blobs").len(), 3);
}

/// A call that repeats the result of an earlier one owns its output too.
pub async fn a_call_owns_the_output_that_it_repeats(store: &Arc<dyn Store>) {
    let blob = fresh(100);
    let source = owner(store, std::slice::from_ref(&blob)).await;
    let call = accepted(&tenant());
    store.record(record(&call, None)).await.expect("a step");
    let State::Finished(mut repeated) = finished() else { unreachable!("it is finished") };
    repeated.stdout.digest = Some(Digest::of(&blob));
    repeated.stderr.digest = Some(Digest::of(&fresh(9)));
    repeated.memoised = Some(Memoised {
        call: CallId(Uuid::now_v7()),
        entry: 0,
        leaf: Digest::of(b"leaf"),
        ended_at: call.changed_at,
    });
    let step = record(&in_state(&call, State::Finished(repeated)), Some(Version(1)));
    store.record(step).await.expect("a step");
    let repeating = BlobOwner::Call(call.asked.id);
    let expected = [(Digest::of(&blob), blob.len() as u64)];
    assert_eq!(store.blobs_of(repeating).await.expect("blobs"), expected, "only what is there");
    store.release_blobs(source).await.expect("a release");
    collect(store).await;
    assert!(is_kept(store, &blob).await);
}
