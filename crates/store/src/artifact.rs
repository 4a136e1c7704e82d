//! Artifacts as the store keeps them.

use ringfence_types::{
    ArtifactId, ArtifactKind, CallId, Digest, Json, TenantId, Timestamp, artifact_label as label,
};
use serde::{Deserialize, Serialize};

/// Artifact: a series of versions under one id.
#[derive(Debug, Clone, PartialEq)]
pub struct Artifact {
    /// Id.
    pub id: ArtifactId,
    /// Tenant.
    pub tenant: TenantId,
    /// Kind.
    pub kind: ArtifactKind,
    /// Title, such as the name of a file.
    pub title: String,
    /// Further description.
    pub about: ArtifactAbout,
    /// Time of the first version.
    pub created_at: Timestamp,
    /// Number of the newest version.
    pub newest: u32,
}

/// Description of an artifact that never changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactAbout {
    /// Description for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Media type.
    pub media_type: String,
    /// Tags for search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Name of the maker.
    pub created_by: String,
    /// Intent that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// Task that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Path in the workspace of the call that left it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Version of an artifact.
#[derive(Debug, Clone, PartialEq)]
pub struct ArtifactVersion {
    /// Number, from 1.
    pub number: u32,
    /// Content and description.
    pub content: NewVersion,
}

/// Content and description of a version.
#[derive(Debug, Clone, PartialEq)]
pub struct NewVersion {
    /// Digest of the bytes.
    pub digest: Digest,
    /// Number of bytes.
    pub size: u64,
    /// Time at which it was made.
    pub at: Timestamp,
    /// Call that made it.
    pub call: Option<CallId>,
    /// Further description.
    pub about: VersionAbout,
}

/// Description of a version.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VersionAbout {
    /// Description of the changes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub changes: String,
    /// Author.
    pub author: String,
    /// Confidence of the author, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Labels of the sources of the content. They are only ever added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Version whose content it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<u32>,
}

/// Artifact with its first version.
#[derive(Debug, Clone, PartialEq)]
pub struct NewArtifact {
    /// Id.
    pub id: ArtifactId,
    /// Kind.
    pub kind: ArtifactKind,
    /// Title.
    pub title: String,
    /// Further description.
    pub about: ArtifactAbout,
    /// First version.
    pub version: NewVersion,
}

impl NewArtifact {
    /// Words by which it is found: see [`ArtifactQuery`].
    pub(crate) fn marks(&self) -> Vec<String> {
        let tags = self.about.tags.iter().map(|tag| format!("tag:{tag}"));
        let intent = self.about.intent.iter().map(|intent| format!("intent:{intent}"));
        let labels = self.version.about.labels.iter().map(|label| label_mark(label));
        let call = self.version.call.map(call_mark);
        let mut marks: Vec<_> = tags.chain(intent).chain(labels).chain(call).collect();
        marks.sort_unstable();
        marks.dedup();
        marks
    }
}

pub(crate) fn label_mark(label: &str) -> String {
    format!("label:{label}")
}

fn call_mark(call: CallId) -> String {
    format!("call:{call}")
}

/// Judgement of a version by a person or a program.
#[derive(Debug, Clone, PartialEq)]
pub struct ArtifactVerdict {
    /// Version that was judged.
    pub version: u32,
    /// Number among the verdicts of the version, from 1.
    pub number: u32,
    /// Time.
    pub at: Timestamp,
    /// Content.
    pub about: VerdictAbout,
}

/// Content of a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerdictAbout {
    /// Kind: confidence, review, test, security or compliance.
    pub kind: String,
    /// Score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Decision: accept, reject, escalate or revision-needed.
    pub decision: String,
    /// Evidence: an object.
    pub evidence: Json,
    /// Reviewer.
    pub reviewer: String,
    /// Call that gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
}

/// Change of an artifact.
#[derive(Debug, Clone, PartialEq)]
pub enum ArtifactChange {
    /// New artifact.
    Create {
        /// Artifact with its first version.
        artifact: NewArtifact,
        /// Bytes of the version.
        bytes: Vec<u8>,
    },
    /// New version.
    AddVersion {
        /// Artifact.
        id: ArtifactId,
        /// Version.
        version: NewVersion,
        /// Bytes; none if a version of the same artifact has them.
        bytes: Option<Vec<u8>>,
        /// Only if this is the newest version.
        after: Option<u32>,
    },
    /// Verdict about a version.
    AddVerdict {
        /// Artifact.
        id: ArtifactId,
        /// Version; the newest without one.
        version: Option<u32>,
        /// Time.
        at: Timestamp,
        /// Content.
        about: VerdictAbout,
    },
    /// Labels that are added to all versions.
    AddLabels {
        /// Artifact.
        id: ArtifactId,
        /// Labels.
        labels: Vec<String>,
    },
    /// Removal with all versions and verdicts. The bytes go when nothing else refers to them; the lineage
    /// stays.
    Remove {
        /// Artifact.
        id: ArtifactId,
    },
}

/// Result of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArtifactChanged {
    /// It was made.
    Done {
        /// Version that was added or judged; the newest for other changes.
        version: u32,
        /// Number of the verdict that was added, else 0.
        verdict: u32,
    },
    /// The tenant has no such artifact, or the artifact has no such version.
    NotFound,
    /// Another version is the newest.
    NotNewest(u32),
}

/// Reference to content of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArtifactRef {
    /// Newest version of any artifact with this content.
    Content(Digest),
    /// Version of an artifact; the newest without a number.
    Version(ArtifactId, Option<u32>),
}

/// Query for artifacts, newest first.
#[derive(Debug, Clone)]
pub struct ArtifactQuery {
    /// Tenant.
    pub tenant: TenantId,
    /// Only of this kind.
    pub kind: Option<ArtifactKind>,
    /// Only with this text in the title, whatever its case.
    pub title: Option<String>,
    /// Only with this tag.
    pub tag: Option<String>,
    /// Only with this label.
    pub label: Option<String>,
    /// Only of this intent.
    pub intent: Option<String>,
    /// Only those whose first version this call made.
    pub call: Option<CallId>,
    /// Only older ones than this (ids sort by time).
    pub before: Option<ArtifactId>,
    /// At most so many.
    pub limit: usize,
}

impl ArtifactQuery {
    /// All artifacts of a tenant.
    pub fn of(tenant: TenantId) -> Self {
        Self {
            tenant,
            kind: None,
            title: None,
            tag: None,
            label: None,
            intent: None,
            call: None,
            before: None,
            limit: crate::PAGE,
        }
    }

    /// The mark that is looked up, and those that are compared.
    pub(crate) fn marks(&self) -> Vec<String> {
        let call = self.call.map(call_mark);
        let intent = self.intent.as_ref().map(|intent| format!("intent:{intent}"));
        let tag = self.tag.as_ref().map(|tag| format!("tag:{tag}"));
        let label = self.label.as_ref().map(|label| label_mark(label));
        [call, intent, tag, label].into_iter().flatten().collect()
    }

    /// Whether an artifact is as asked, marks apart.
    pub(crate) fn fits(&self, artifact: &Artifact) -> bool {
        let title = |part: &String| artifact.title.to_lowercase().contains(&part.to_lowercase());
        self.kind.is_none_or(|kind| kind == artifact.kind) && self.title.as_ref().is_none_or(title)
    }
}

/// Artifacts, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct ArtifactPage {
    /// The artifacts.
    pub artifacts: Vec<Artifact>,
    /// Where the next page begins (`before`); `None` after the last one.
    pub next: Option<ArtifactId>,
}

/// Artifacts that one read visits.
pub(crate) const VISITED: usize = 2_000;

impl ArtifactPage {
    /// The page of rows that a read visited, in their order.
    pub(crate) fn of(query: &ArtifactQuery, visited: Vec<Artifact>) -> Self {
        let is_last = visited.len() < VISITED;
        let (mut artifacts, mut next) = (Vec::new(), None);
        for artifact in visited {
            if artifacts.len() == query.limit.min(crate::PAGE) {
                return Self { artifacts, next };
            }
            next = Some(artifact.id);
            if query.fits(&artifact) {
                artifacts.push(artifact);
            }
        }
        Self { artifacts, next: next.filter(|_| !is_last) }
    }
}

/// Numbers of the artifacts of a tenant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ArtifactTotals {
    /// Artifacts.
    pub artifacts: u64,
    /// Versions of all artifacts.
    pub versions: u64,
    /// Bytes of all versions, each counted by itself.
    pub bytes: u64,
}

/// Adds labels to a version; `None` if it has them all.
pub(crate) fn with_labels(about: &VersionAbout, labels: &[String]) -> Option<VersionAbout> {
    let all = label::union(&about.labels, labels);
    (all.len() > about.labels.len()).then(|| VersionAbout { labels: all, ..about.clone() })
}
