//! Reading artifacts and their lineage. They are changed by calls of `artifact_write`.

use std::collections::{BTreeMap, btree_map::Entry};

use ringfence_store::{
    Artifact, ArtifactPage, ArtifactQuery, ArtifactRef, ArtifactTotals, ArtifactVerdict,
    ArtifactVersion, Error, Lineage, LineageDirection, LineageNode, LineageQuery,
};
use ringfence_types::{ArtifactId, CallId, Digest, Principal, State};

use crate::{ArtifactLimits, Engine};

/// Comparison of the stored bytes of a version with its digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifiedVersion {
    /// Version.
    pub version: u32,
    /// Digest when it was made.
    pub stored: Digest,
    /// Digest of the bytes that are there now; none if there are none.
    pub computed: Option<Digest>,
}

/// Part of the lineage, with names for people.
#[derive(Debug, Clone, Default)]
pub struct NamedLineage {
    /// Nodes and edges.
    pub lineage: Lineage,
    /// Distances from the first node: negative for causes, positive for effects.
    pub levels: BTreeMap<LineageNode, i64>,
    /// Names of nodes: the title of an artifact, the tool of a call.
    pub names: BTreeMap<LineageNode, String>,
}

/// Nodes that get a name: reading one costs a query.
const MAX_NAMED: usize = 200;

impl Engine {
    /// Artifacts of a tenant, newest first.
    pub async fn artifacts(&self, query: ArtifactQuery) -> Result<ArtifactPage, Error> {
        self.inner.parts.store.artifacts(query).await
    }

    /// One artifact.
    pub async fn artifact(
        &self,
        who: &Principal,
        id: ArtifactId,
    ) -> Result<Option<Artifact>, Error> {
        self.inner.parts.store.artifact(&who.tenant, id).await
    }

    /// Versions of an artifact, newest first.
    pub async fn artifact_versions(
        &self,
        who: &Principal,
        id: ArtifactId,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<ArtifactVersion>, Error> {
        self.inner.parts.store.artifact_versions(&who.tenant, id, before, limit).await
    }

    /// The version that a reference names.
    pub async fn artifact_version(
        &self,
        who: &Principal,
        wanted: ArtifactRef,
    ) -> Result<Option<(ArtifactId, ArtifactVersion)>, Error> {
        self.inner.parts.store.artifact_version(&who.tenant, wanted).await
    }

    /// Bytes of a version of the tenant, from an offset.
    pub async fn artifact_bytes(
        &self,
        version: &ArtifactVersion,
        offset: u64,
        limit: u64,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.inner.parts.store.blob(version.content.digest, offset, limit).await
    }

    /// Verdicts about an artifact, newest first.
    pub async fn artifact_verdicts(
        &self,
        who: &Principal,
        id: ArtifactId,
        limit: usize,
    ) -> Result<Vec<ArtifactVerdict>, Error> {
        self.inner.parts.store.verdicts(&who.tenant, id, limit).await
    }

    /// Numbers of the tenant's artifacts.
    pub async fn artifact_totals(&self, who: &Principal) -> Result<ArtifactTotals, Error> {
        self.inner.parts.store.artifact_totals(&who.tenant).await
    }

    /// Limits on artifacts.
    pub fn artifact_limits(&self) -> ArtifactLimits {
        self.inner.parts.settings.artifacts
    }

    /// Compares the bytes of a version with its digest.
    pub async fn verify_artifact(
        &self,
        who: &Principal,
        id: ArtifactId,
        version: Option<u32>,
    ) -> Result<Option<VerifiedVersion>, Error> {
        let store = &self.inner.parts.store;
        let wanted = ArtifactRef::Version(id, version);
        let Some((_, version)) = store.artifact_version(&who.tenant, wanted).await? else {
            return Ok(None);
        };
        let stored = version.content.digest;
        let computed = match store.blob(stored, 0, u64::MAX).await {
            Ok(bytes) => bytes.map(|bytes| Digest::of(&bytes)),
            // Damaged or missing bytes are a finding here, not a failure.
            Err(Error::Backend { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(Some(VerifiedVersion { version: version.number, stored, computed }))
    }

    /// Causes, effects or both of a node, with names.
    pub async fn lineage(
        &self,
        who: &Principal,
        node: LineageNode,
        directions: &[LineageDirection],
        (depth, limit): (u32, usize),
    ) -> Result<NamedLineage, Error> {
        let (mut all, mut levels) = (Lineage::default(), BTreeMap::new());
        for direction in directions {
            let tenant = who.tenant.clone();
            let query = LineageQuery { tenant, node, direction: *direction, depth, limit };
            let found = self.inner.parts.store.lineage(query).await?;
            all.is_cut |= found.is_cut;
            let sign = if *direction == LineageDirection::Backward { -1 } else { 1 };
            for (node, depth) in found.nodes {
                if let Entry::Vacant(new) = levels.entry(node) {
                    new.insert(sign * i64::from(depth));
                    all.nodes.push((node, depth));
                }
            }
            all.edges.extend(found.edges);
        }
        all.edges.sort_unstable();
        all.edges.dedup();
        let mut names = BTreeMap::new();
        for (node, _) in all.nodes.iter().take(MAX_NAMED) {
            if let Some(name) = self.node_name(who, node).await? {
                names.insert(*node, name);
            }
        }
        Ok(NamedLineage { lineage: all, levels, names })
    }

    async fn node_name(
        &self,
        who: &Principal,
        node: &LineageNode,
    ) -> Result<Option<String>, Error> {
        Ok(match node {
            LineageNode::Artifact(id, version) => {
                let artifact = self.artifact(who, *id).await?;
                artifact.map(|artifact| format!("{} v{version}", artifact.title))
            }
            LineageNode::Call(id) => self.call_name(who, *id).await?,
            LineageNode::Tool(digest) => {
                let catalogue = self.inner.parts.registry.catalogue();
                let entry = catalogue.by_digest(*digest);
                entry.map(|entry| format!("{} {}", entry.tool.name, entry.tool.version))
            }
            LineageNode::Policy(_) | LineageNode::Approval(_) => None,
        })
    }

    async fn call_name(&self, who: &Principal, id: CallId) -> Result<Option<String>, Error> {
        let stored = self.inner.parts.store.call(&who.tenant, id).await?;
        Ok(stored.map(|stored| {
            let call = stored.call;
            let state = match &call.state {
                State::Finished(finished) if finished.is_success() => "",
                State::Finished(_) => " (failed)",
                _ => " (not finished)",
            };
            format!("{}{state}", call.asked.tool.name)
        }))
    }
}
