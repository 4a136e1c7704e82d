//! Uploaded skills.

use std::sync::Arc;

use ringfence_types::{Digest, Timestamp, ToolRef};
use uuid::Uuid;

use super::samples::AT;
use crate::{Store, UploadRow};

pub(super) fn row(name: &str) -> UploadRow {
    let tool = ToolRef {
        name: name.parse().expect("a name"),
        version: "1.0.0".to_owned(),
        digest: Digest::of(Uuid::now_v7().as_bytes()),
    };
    UploadRow { tool, at: Timestamp::from_micros(AT), is_removed: false }
}

pub(super) fn name() -> String {
    let text = Uuid::now_v7().simple().to_string();
    format!("up_{}", &text[text.len() - 20..])
}

pub(super) async fn found(store: &Arc<dyn Store>, digest: Digest) -> Option<UploadRow> {
    let mut after = None;
    loop {
        let page = store.uploads(after).await.expect("an answer");
        after = Some(page.last()?.tool.digest);
        if let Some(row) = page.into_iter().find(|row| row.tool.digest == digest) {
            return Some(row);
        }
    }
}

/// An upload reads back whole, whatever bytes it has; when it is removed its row stays and its bytes go.
pub async fn an_upload_reads_back_whole_until_it_is_removed(store: &Arc<dyn Store>) {
    let row = row(&name());
    let digest = row.tool.digest;
    let content: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    assert_eq!(store.upload_content(digest).await.expect("an answer"), None);
    assert!(store.add_upload(row.clone(), content.clone()).await.expect("it is kept"));
    assert_eq!(found(store, digest).await, Some(row.clone()));
    assert_eq!(store.upload_content(digest).await.expect("an answer"), Some(content.clone()));
    assert!(store.remove_upload(digest).await.expect("it is removed"));
    assert!(!store.remove_upload(digest).await.expect("an answer"));
    assert_eq!(found(store, digest).await, Some(UploadRow { is_removed: true, ..row.clone() }));
    assert_eq!(store.upload_content(digest).await.expect("an answer"), None);
    // What was removed can be uploaded again.
    let later = UploadRow { at: Timestamp::from_micros(AT + 1), ..row };
    assert!(store.add_upload(later.clone(), content).await.expect("it is kept"));
    assert_eq!(found(store, digest).await, Some(later));
}

/// A version of a skill belongs to one upload, until that is removed.
pub async fn a_version_of_a_skill_is_uploaded_once(store: &Arc<dyn Store>) {
    let name = name();
    let (one, other) = (row(&name), row(&name));
    let add = async |row: &UploadRow| {
        store.add_upload(row.clone(), b"files".to_vec()).await.expect("an answer")
    };
    assert!(add(&one).await);
    assert!(add(&one).await, "the same again");
    assert!(!add(&other).await, "other files");
    assert_eq!(found(store, other.tool.digest).await, None);
    assert!(store.remove_upload(one.tool.digest).await.expect("it is removed"));
    assert!(add(&other).await);
    assert!(!add(&one).await, "its version is taken by now");
    assert!(found(store, one.tool.digest).await.expect("its row").is_removed);
}
