//! Findings about policies that are tried.

use std::sync::Arc;

use ringfence_types::Timestamp;
use uuid::Uuid;

use super::samples::AT;
use crate::{Findings, NewFindings, Store};

fn found(canary: &str, counts: &[u64], differences: &[&str]) -> NewFindings {
    NewFindings {
        canary: canary.to_owned(),
        at: Timestamp::from_micros(AT),
        counts: counts.to_vec(),
        differences: differences.iter().map(|&text| text.to_owned()).collect(),
        most: 3,
    }
}

/// Counts are added up; of what differs the newest are kept, and found page by page.
pub async fn findings_add_up_and_the_newest_are_kept(store: &Arc<dyn Store>) {
    let (one, other) = (Uuid::now_v7().to_string(), Uuid::now_v7().to_string());
    let find = async |canary: &str, before, limit| {
        store.findings(canary, before, limit).await.expect("an answer")
    };
    assert_eq!(find(&one, None, 9).await, Findings::default());
    for new in [
        found(&one, &[1, 2], &["a", "b"]),
        found(&other, &[9], &["x"]),
        found(&one, &[1, 2, 3], &["c", "d"]),
    ] {
        store.add_findings(new).await.expect("it is kept");
    }
    let all = find(&one, None, 9).await;
    assert_eq!((all.since, all.counts), (Some(Timestamp::from_micros(AT)), vec![2, 4, 3]));
    let texts = |findings: &[(u64, String)]| {
        findings.iter().map(|(_, text)| text.clone()).collect::<Vec<_>>()
    };
    assert_eq!(texts(&all.differences), ["d", "c", "b"]);
    let first = find(&one, None, 2).await.differences;
    assert_eq!(texts(&first), ["d", "c"]);
    let last = find(&one, Some(first[1].0), 2).await.differences;
    assert_eq!(texts(&last), ["b"]);
    assert_eq!(texts(&find(&other, None, 9).await.differences), ["x"]);
}
