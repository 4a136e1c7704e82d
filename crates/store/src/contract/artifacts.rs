//! Artifacts and their lineage.

use std::{sync::Arc, time::Duration};

use ringfence_types::{ArtifactId, ArtifactKind, CallId, Digest, Json, State, TenantId, Timestamp};
use uuid::Uuid;

use super::samples::{accepted, finished, in_state, record, tenant};
use crate::{
    ArtifactAbout, ArtifactChange, ArtifactChanged, ArtifactQuery, ArtifactRef, ArtifactTotals,
    BlobOwner, Error, LineageDirection, LineageEdge, LineageNode, LineageQuery, LineageRelation,
    NewArtifact, NewVersion, Store, VerdictAbout, Version, VersionAbout,
};

fn id() -> ArtifactId {
    ArtifactId(Uuid::now_v7())
}

/// Bytes that were not stored before, of this length or a little more.
fn fresh(length: usize) -> Vec<u8> {
    let mut bytes = Uuid::now_v7().as_bytes().to_vec();
    bytes.extend((0..length).map(|index| (index % 251) as u8));
    bytes
}

fn version(bytes: &[u8], call: Option<CallId>) -> NewVersion {
    NewVersion {
        digest: Digest::of(bytes),
        size: bytes.len() as u64,
        at: Timestamp::from_micros(1_700_000_000_000_000),
        call,
        about: VersionAbout {
            changes: "first".to_owned(),
            author: "ann".to_owned(),
            confidence: Some(0.5),
            labels: vec!["web".to_owned()],
            copy_of: None,
        },
    }
}

fn artifact(title: &str, bytes: &[u8], call: Option<CallId>) -> NewArtifact {
    NewArtifact {
        id: id(),
        kind: ArtifactKind::Data,
        title: title.to_owned(),
        about: ArtifactAbout {
            media_type: "text/csv".to_owned(),
            tags: vec!["monthly".to_owned()],
            created_by: "ann".to_owned(),
            intent: Some("i-1".to_owned()),
            ..ArtifactAbout::default()
        },
        version: version(bytes, call),
    }
}

async fn change(
    store: &Arc<dyn Store>,
    tenant: &TenantId,
    change: ArtifactChange,
) -> ArtifactChanged {
    store.change_artifact(tenant, change).await.expect("an answer")
}

const fn done(version: u32) -> ArtifactChanged {
    ArtifactChanged::Done { version, verdict: 0 }
}

/// Artifacts and edges of a record become visible with it, with their bytes, or not at all.
pub async fn artifacts_of_a_record_share_its_commit(store: &Arc<dyn Store>) {
    for length in [100, 300_000] {
        let tenant = tenant();
        let call = accepted(&tenant);
        let bytes = fresh(length);
        let new = artifact("table.csv", &bytes, Some(call.asked.id));
        let used = LineageNode::Artifact(id(), 3);
        let node = LineageNode::Call(call.asked.id);
        let edge = LineageEdge::new(node, LineageRelation::Used, used);
        store.record(record(&call, None)).await.expect("a step");
        let mut step = record(&in_state(&call, finished()), Some(Version(9)));
        step.blobs = vec![bytes.clone()];
        step.artifacts = vec![new.clone()];
        step.edges = vec![edge];
        let stale = store.record(step.clone()).await;
        assert!(matches!(stale, Err(Error::Stale)), "expected stale, got {stale:?}");
        assert_eq!(store.artifact(&tenant, new.id).await.expect("an answer"), None);
        assert_eq!(
            store.artifact_totals(&tenant).await.expect("totals"),
            ArtifactTotals::default()
        );
        step.seen = Some(Version(1));
        store.record(step).await.expect("a step");
        let found = store.artifact(&tenant, new.id).await.expect("an answer").expect("it is there");
        assert_eq!((found.kind, &found.title, &found.about), (new.kind, &new.title, &new.about));
        assert_eq!((found.newest, found.created_at), (1, new.version.at));
        let versions = store.artifact_versions(&tenant, new.id, None, 9).await.expect("versions");
        assert_eq!(versions.len(), 1);
        assert_eq!((versions[0].number, &versions[0].content), (1, &new.version));
        let owned = store.blobs_of(BlobOwner::Artifact(new.id)).await.expect("blobs");
        assert_eq!(owned, [(new.version.digest, new.version.size)]);
        let read = store.blob(new.version.digest, 0, u64::MAX).await.expect("bytes");
        assert_eq!(read, Some(bytes));
        let totals = ArtifactTotals { artifacts: 1, versions: 1, bytes: new.version.size };
        assert_eq!(store.artifact_totals(&tenant).await.expect("totals"), totals);
        let made =
            LineageEdge::new(LineageNode::Artifact(new.id, 1), LineageRelation::MadeBy, node);
        let query = LineageQuery {
            tenant,
            node: made.node,
            direction: LineageDirection::Backward,
            depth: 9,
            limit: 9,
        };
        let lineage = store.lineage(query).await.expect("lineage");
        assert_eq!(lineage.edges, [made, edge]);
    }
}

/// The bytes of an artifact stay when the call that made it lets go of them, and go with the artifact.
pub async fn an_artifact_keeps_its_bytes_until_it_is_removed(store: &Arc<dyn Store>) {
    let tenant = tenant();
    for length in [100, 300_000] {
        let call = accepted(&tenant);
        let bytes = fresh(length);
        let new = artifact("table.csv", &bytes, Some(call.asked.id));
        let mut step = record(&call, None);
        step.blobs = vec![bytes];
        step.artifacts = vec![new.clone()];
        store.record(step).await.expect("a step");
        let collect = async || {
            store.collect_blobs(Duration::ZERO, crate::PAGE).await.expect("a collection");
            store.blob(new.version.digest, 0, 1).await.expect("an answer").is_some()
        };
        store.release_blobs(BlobOwner::Call(call.asked.id)).await.expect("a release");
        assert!(collect().await, "the artifact has them");
        let remove = || ArtifactChange::Remove { id: new.id };
        assert_eq!(change(store, &tenant, remove()).await, done(1));
        assert_eq!(change(store, &tenant, remove()).await, ArtifactChanged::NotFound);
        assert!(!collect().await, "nothing has them");
        assert_eq!(store.artifact(&tenant, new.id).await.expect("an answer"), None);
        let versions = store.artifact_versions(&tenant, new.id, None, 9).await.expect("versions");
        assert_eq!(versions, []);
    }
    assert_eq!(store.artifact_totals(&tenant).await.expect("totals"), ArtifactTotals::default());
}

/// Versions have numbers from 1 without a gap and are never changed; a rollback is a new one.
pub async fn versions_of_an_artifact_grow_by_one(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let (first, second) = (fresh(10), fresh(300_000));
    let new = artifact("a.txt", &first, None);
    let create = ArtifactChange::Create { artifact: new.clone(), bytes: first.clone() };
    assert_eq!(change(store, &tenant, create).await, done(1));
    let add = |bytes: &[u8], kept: bool, after, copy_of| {
        let about = VersionAbout { copy_of, ..version(bytes, None).about };
        let version = NewVersion { about, ..version(bytes, None) };
        let bytes = kept.then(|| bytes.to_vec());
        ArtifactChange::AddVersion { id: new.id, version, bytes, after }
    };
    assert_eq!(change(store, &tenant, add(&second, true, None, None)).await, done(2));
    let late = change(store, &tenant, add(&fresh(300_000), true, Some(1), None)).await;
    assert_eq!(late, ArtifactChanged::NotNewest(2));
    assert_eq!(change(store, &tenant, add(&first, false, Some(2), Some(1))).await, done(3));
    let unknown = change(store, &tenant, add(&fresh(1), false, None, None)).await;
    assert_eq!(unknown, ArtifactChanged::NotFound, "bytes of no version of this artifact");
    let of_page = async |before, limit| {
        let found = store.artifact_versions(&tenant, new.id, before, limit).await;
        let found = found.expect("versions");
        found.iter().map(|v| (v.number, v.content.digest)).collect::<Vec<_>>()
    };
    let (one, two) = (Digest::of(&first), Digest::of(&second));
    assert_eq!(of_page(None, 9).await, [(3, one), (2, two), (1, one)]);
    assert_eq!(of_page(Some(3), 1).await, [(2, two)]);
    let wanted = async |wanted| {
        let found = store.artifact_version(&tenant, wanted).await.expect("an answer");
        found.map(|(id, version)| (id, version.number))
    };
    assert_eq!(wanted(ArtifactRef::Version(new.id, None)).await, Some((new.id, 3)));
    assert_eq!(wanted(ArtifactRef::Version(new.id, Some(2))).await, Some((new.id, 2)));
    assert_eq!(wanted(ArtifactRef::Version(new.id, Some(4))).await, None);
    assert_eq!(wanted(ArtifactRef::Content(one)).await, Some((new.id, 3)));
    assert_eq!(wanted(ArtifactRef::Content(Digest::of(b"no"))).await, None);
    assert_eq!(store.blob(two, 0, u64::MAX).await.expect("bytes"), Some(second));
    let totals = store.artifact_totals(&tenant).await.expect("totals");
    assert_eq!((totals.artifacts, totals.versions), (1, 3));
}

/// Several that add a version at once get each a number of their own.
pub async fn of_many_who_add_versions_each_has_its_own(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let first = fresh(10);
    let new = artifact("a.txt", &first, None);
    let create = ArtifactChange::Create { artifact: new.clone(), bytes: first };
    change(store, &tenant, create).await;
    let adding = (0..8).map(|_| {
        let (store, tenant, bytes) = (store.clone(), tenant.clone(), fresh(20));
        let (version, bytes) = (version(&bytes, None), Some(bytes));
        let add = ArtifactChange::AddVersion { id: new.id, version, bytes, after: None };
        tokio::spawn(async move { change(&store, &tenant, add).await })
    });
    let mut numbers = Vec::new();
    for task in adding.collect::<Vec<_>>() {
        let ArtifactChanged::Done { version, .. } = task.await.expect("no panic") else {
            panic!("each is made");
        };
        numbers.push(version);
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (2..=9).collect::<Vec<_>>());
}

/// Verdicts are about one version, in their order; labels are only added.
pub async fn verdicts_and_labels_are_added(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let bytes = fresh(10);
    let new = artifact("a.txt", &bytes, None);
    let create = ArtifactChange::Create { artifact: new.clone(), bytes: bytes.clone() };
    change(store, &tenant, create).await;
    let verdict = |decision: &str| VerdictAbout {
        kind: "review".to_owned(),
        score: Some(0.25),
        decision: decision.to_owned(),
        evidence: Json::parse(br#"{"lines":[1,2]}"#).expect("JSON"),
        reviewer: "bob".to_owned(),
        call: None,
    };
    let at = Timestamp::from_micros(5);
    let add = |version, decision: &str| ArtifactChange::AddVerdict {
        id: new.id,
        version,
        at,
        about: verdict(decision),
    };
    let added = |verdict| ArtifactChanged::Done { version: 1, verdict };
    assert_eq!(change(store, &tenant, add(None, "reject")).await, added(1));
    assert_eq!(change(store, &tenant, add(Some(1), "accept")).await, added(2));
    assert_eq!(change(store, &tenant, add(Some(2), "accept")).await, ArtifactChanged::NotFound);
    let found = store.verdicts(&tenant, new.id, 9).await.expect("verdicts");
    let found: Vec<_> = found.into_iter().map(|v| (v.version, v.number, v.at, v.about)).collect();
    assert_eq!(found, [(1, 2, at, verdict("accept")), (1, 1, at, verdict("reject"))]);
    let labels = ["web", "acme:pii"].map(str::to_owned).to_vec();
    let add = ArtifactChange::AddLabels { id: new.id, labels };
    assert_eq!(change(store, &tenant, add).await, done(1));
    let found = store.labels_of(&tenant, Digest::of(&bytes)).await.expect("labels");
    assert_eq!(found, ["acme:pii", "web"]);
    let query =
        ArtifactQuery { label: Some("acme:pii".to_owned()), ..ArtifactQuery::of(tenant.clone()) };
    let page = store.artifacts(query).await.expect("a page");
    assert_eq!(page.artifacts.iter().map(|a| a.id).collect::<Vec<_>>(), [new.id]);
}

/// Artifacts are found by what they are, newest first, page by page.
pub async fn artifacts_are_found_by_what_they_are(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let mut ids = Vec::new();
    let call = CallId(Uuid::now_v7());
    for number in 0..5 {
        let bytes = fresh(10);
        let mut new = artifact(&format!("Report {number}.csv"), &bytes, None);
        if number % 2 == 0 {
            new.kind = ArtifactKind::Code;
            new.about.tags = vec!["even".to_owned()];
            new.version.call = Some(call);
        }
        ids.push(new.id);
        change(store, &tenant, ArtifactChange::Create { artifact: new, bytes }).await;
    }
    ids.reverse();
    let all = || ArtifactQuery::of(tenant.clone());
    let find = async |query: ArtifactQuery| {
        let page = store.artifacts(query).await.expect("a page");
        page.artifacts.iter().map(|artifact| artifact.id).collect::<Vec<_>>()
    };
    assert_eq!(find(all()).await, ids);
    let first = store.artifacts(ArtifactQuery { limit: 2, ..all() }).await.expect("a page");
    assert_eq!(first.artifacts.len(), 2);
    let next = ArtifactQuery { before: first.next, ..all() };
    assert_eq!(find(next).await, ids[2..]);
    let even = [ids[0], ids[2], ids[4]];
    assert_eq!(find(ArtifactQuery { kind: Some(ArtifactKind::Code), ..all() }).await, even);
    assert_eq!(find(ArtifactQuery { tag: Some("even".to_owned()), ..all() }).await, even);
    assert_eq!(find(ArtifactQuery { call: Some(call), ..all() }).await, even);
    let titled = ArtifactQuery { title: Some("report 3".to_owned()), ..all() };
    assert_eq!(find(titled).await, [ids[1]]);
    let both = ArtifactQuery {
        tag: Some("even".to_owned()),
        intent: Some("i-1".to_owned()),
        label: Some("web".to_owned()),
        ..all()
    };
    assert_eq!(find(both).await, even);
    assert_eq!(find(ArtifactQuery { tag: Some("odd".to_owned()), ..all() }).await, []);
}

/// Artifacts of one tenant can be neither found, read nor changed by another.
pub async fn artifacts_of_others_are_never_found(store: &Arc<dyn Store>) {
    let (own, other) = (tenant(), tenant());
    let bytes = fresh(10);
    let new = artifact("a.txt", &bytes, Some(CallId(Uuid::now_v7())));
    let digest = new.version.digest;
    let create = ArtifactChange::Create { artifact: new.clone(), bytes };
    change(store, &own, create).await;
    assert_eq!(store.artifact(&other, new.id).await.expect("an answer"), None);
    let versions = store.artifact_versions(&other, new.id, None, 9).await.expect("versions");
    assert_eq!(versions, []);
    for wanted in [ArtifactRef::Content(digest), ArtifactRef::Version(new.id, None)] {
        assert_eq!(store.artifact_version(&other, wanted).await.expect("an answer"), None);
    }
    assert_eq!(store.labels_of(&other, digest).await.expect("labels"), Vec::<String>::new());
    assert_eq!(store.verdicts(&other, new.id, 9).await.expect("verdicts"), []);
    let page = store.artifacts(ArtifactQuery::of(other.clone())).await.expect("a page");
    assert_eq!(page.artifacts, []);
    let remove = ArtifactChange::Remove { id: new.id };
    assert_eq!(change(store, &other, remove).await, ArtifactChanged::NotFound);
    let query = LineageQuery {
        tenant: other,
        node: LineageNode::Artifact(new.id, 1),
        direction: LineageDirection::Backward,
        depth: 5,
        limit: 9,
    };
    assert_eq!(store.lineage(query).await.expect("lineage").edges, []);
}

/// Causes and effects are found at any depth, within bounds that an answer tells of.
pub async fn lineage_goes_both_ways_within_bounds(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let nodes: Vec<_> = (0..6).map(|_| LineageNode::Call(CallId(Uuid::now_v7()))).collect();
    let tool = LineageNode::Tool(Digest::of(b"tool"));
    let child = |node: usize, cause: usize| {
        LineageEdge::new(nodes[node], LineageRelation::ChildOf, nodes[cause])
    };
    let ran = |node: usize| LineageEdge::new(nodes[node], LineageRelation::Ran, tool);
    // A chain 5 -> 4 -> 3 -> 2 -> 1 -> 0 with a shortcut and a circle; all ran one tool.
    let mut edges: Vec<_> = (1..6).map(|node| child(node, node - 1)).collect();
    edges.extend([child(5, 3), child(0, 5)]);
    edges.extend((0..6).map(ran));
    let call = accepted(&tenant);
    let mut step = record(&call, None);
    step.edges = edges.clone();
    store.record(step).await.expect("a step");
    // The same again changes nothing.
    let mut again = record(&in_state(&call, finished()), Some(Version(1)));
    again.edges = edges.clone();
    assert!(matches!(again.call.state, State::Finished(_)));
    store.record(again).await.expect("a step");
    let query = |node, direction, depth, limit| LineageQuery {
        tenant: tenant.clone(),
        node,
        direction,
        depth,
        limit,
    };
    let find = async |query| store.lineage(query).await.expect("lineage");
    let near = find(query(nodes[5], LineageDirection::Backward, 1, 100)).await;
    let mut level: Vec<_> = near.nodes[1..].iter().map(|(node, depth)| (*depth, *node)).collect();
    level.sort_unstable();
    let mut expected = vec![(1, nodes[4]), (1, nodes[3]), (1, tool)];
    expected.sort_unstable();
    assert_eq!((near.nodes[0], level), ((nodes[5], 0), expected));
    assert!(!near.is_cut);
    let far = find(query(nodes[5], LineageDirection::Backward, 50, 100)).await;
    assert_eq!((far.nodes.len(), far.edges.len(), far.is_cut), (7, edges.len(), false));
    let effects = find(query(tool, LineageDirection::Forward, 1, 100)).await;
    assert_eq!((effects.nodes.len(), effects.edges.len()), (7, 6));
    let cut = find(query(tool, LineageDirection::Forward, 9, 3)).await;
    assert_eq!((cut.nodes.len(), cut.is_cut), (3, true));
    let alone =
        find(query(LineageNode::Policy(Digest::of(b"no")), LineageDirection::Forward, 9, 9));
    assert_eq!(alone.await.edges, []);
}
