//! Lineage of a call: the artifacts that it leaves, and what they came from.
//!
//! Calls that neither take nor leave artifacts and that no other call made have no edges: their tool, rules
//! and approval are on their receipt.

use ringfence_store::{
    ArtifactAbout, LineageEdge, LineageNode, LineageRelation, NewArtifact, NewVersion, VersionAbout,
};
use ringfence_types::{
    ArtifactKind, CallFile, Finished, Flow, ReceiptDetails, artifact_label as label,
};

use crate::active_call::ActiveCall;

impl ActiveCall {
    /// Adds artifacts and edges to the record of a call's end.
    pub(crate) fn leave(&mut self, finished: &Finished) {
        // The files of a remembered result are those of the call that ran.
        let files = finished.files.as_ref().filter(|_| finished.memoised.is_none());
        let files = files.map_or(&[][..], |files| &files.stored);
        let labels = self.labels();
        // The parent reads the result, so what it makes from here on may come from it.
        if let Some(parent) = &self.in_flight().parent {
            parent.learn(&labels);
        }
        let artifacts: Vec<_> = files.iter().map(|file| self.artifact(file, &labels)).collect();
        self.pending.edges = self.edges(!artifacts.is_empty());
        self.pending.artifacts = artifacts;
    }

    /// Labels of everything that the call makes.
    pub(crate) fn labels(&self) -> Vec<String> {
        let own = label::union(&self.call.taint(), &own_labels(&self.details));
        label::union(&own, &self.in_flight().learned())
    }

    fn artifact(&self, file: &CallFile, labels: &[String]) -> NewArtifact {
        let asked = self.asked();
        let title = file.path.rsplit('/').next().unwrap_or(&file.path).to_owned();
        let about = ArtifactAbout {
            media_type: file.media_type.clone(),
            created_by: asked.tool.name.to_string(),
            intent: None,
            task: asked
                .cause
                .as_ref()
                .and_then(|cause| cause.step.as_ref())
                .map(|s| s.step.clone()),
            path: Some(file.path.clone()),
            ..ArtifactAbout::default()
        };
        let version = NewVersion {
            digest: file.digest,
            size: file.size,
            at: self.inner.parts.clock.now(),
            call: Some(asked.id),
            about: VersionAbout {
                author: asked.tool.name.to_string(),
                labels: labels.to_vec(),
                ..VersionAbout::default()
            },
        };
        NewArtifact {
            id: file.artifact,
            kind: ArtifactKind::of_path(&file.path),
            title,
            about,
            version,
        }
    }

    fn edges(&self, has_artifacts: bool) -> Vec<LineageEdge> {
        let asked = self.asked();
        let parent = asked.cause.as_ref().and_then(|cause| cause.parent);
        let inputs = &self.details.inputs;
        let makes_artifacts = asked.tool.name.as_str() == "artifact_write";
        if !has_artifacts && inputs.is_empty() && parent.is_none() && !makes_artifacts {
            return Vec::new();
        }
        let node = LineageNode::Call(asked.id);
        let edge = |relation, cause| LineageEdge::new(node, relation, cause);
        let mut edges = vec![edge(LineageRelation::Ran, LineageNode::Tool(asked.tool.digest))];
        if let Some(decision) = &self.call.decision {
            edges.push(edge(LineageRelation::AllowedBy, LineageNode::Policy(decision.policy)));
            let approval = decision.approval.map(LineageNode::Approval);
            edges.extend(approval.map(|approval| edge(LineageRelation::ApprovedBy, approval)));
        }
        edges.extend(parent.map(|id| edge(LineageRelation::ChildOf, LineageNode::Call(id))));
        edges.extend(inputs.iter().map(|given| {
            let version = LineageNode::Artifact(given.artifact, given.version);
            edge(LineageRelation::Used, version)
        }));
        edges
    }
}

/// Labels that follow from the run itself.
fn own_labels(details: &ReceiptDetails) -> Vec<String> {
    let has_network = !details.network.is_empty() || !details.egress.is_empty();
    let has_secret = |flow: &Flow| !flow.secrets.is_empty();
    let web = has_network.then(|| label::WEB.to_owned());
    let secret = details.egress.iter().any(has_secret).then(|| label::SECRET_DERIVED.to_owned());
    web.into_iter().chain(secret).collect()
}
