//! Lineage and provenance.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::{HeaderValue, StatusCode, Uri, header};
use ringfence_edge::{
    Problem,
    identity::{self, May},
    lineage_svg,
    path::Named,
    query::Query,
    reply,
};
use ringfence_engine::{
    NamedLineage,
    data::{LineageDirection, LineageNode, MAX_LINEAGE_NODES},
};
use ringfence_types::{
    ApprovalId, ArtifactId, CallId, Digest, GivenArtifact, Principal, Receipt, Timestamp,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{VerdictView, find, read::version};
use crate::shared::Shared;

/// Part of the lineage.
#[derive(Serialize, ToSchema)]
#[schema(as = Lineage)]
pub(crate) struct LineageView {
    /// Where it begins.
    node: String,
    nodes: Vec<NodeView>,
    edges: Vec<EdgeView>,
    /// Whether nodes within the depth were left out.
    is_cut: bool,
}

/// A node: `artifact:ID@VERSION`, `call:ID`, `tool:DIGEST`, `policy:DIGEST` or `approval:ID`.
#[derive(Serialize, ToSchema)]
#[schema(as = LineageNode)]
struct NodeView {
    id: String,
    kind: &'static str,
    /// Distance from the first node: negative for causes, positive for effects.
    level: i64,
    /// Title of an artifact, tool of a call; none if it is not known any more.
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    href: Option<String>,
}

/// An edge from a node to one of its causes.
#[derive(Serialize, ToSchema)]
#[schema(as = LineageEdge)]
struct EdgeView {
    node: String,
    cause: String,
    /// `made_by`, `used`, `ran`, `allowed_by`, `approved_by`, `child_of`, `follows` or `copy_of`.
    relation: &'static str,
}

impl LineageView {
    fn of(first: LineageNode, named: &NamedLineage) -> Self {
        let node = |(node, _): &(LineageNode, u32)| NodeView {
            id: node.to_string(),
            kind: node.kind(),
            level: named.levels.get(node).copied().unwrap_or(0),
            name: named.names.get(node).cloned(),
            href: href(node),
        };
        let edges = named.lineage.edges.iter().map(|edge| EdgeView {
            node: edge.node.to_string(),
            cause: edge.cause.to_string(),
            relation: edge.relation.name(),
        });
        Self {
            node: first.to_string(),
            nodes: named.lineage.nodes.iter().map(node).collect(),
            edges: edges.collect(),
            is_cut: named.lineage.is_cut,
        }
    }
}

fn href(node: &LineageNode) -> Option<String> {
    match node {
        LineageNode::Artifact(id, version) => {
            Some(format!("/v1/artifacts/{id}/content?version={version}"))
        }
        LineageNode::Call(id) => Some(format!("/v1/calls/{id}")),
        LineageNode::Approval(id) => Some(format!("/v1/approvals/{id}")),
        LineageNode::Tool(_) | LineageNode::Policy(_) => None,
    }
}

/// Shows what an artifact came from and what came of it, as a graph.
#[utoipa::path(
    get, path = "/v1/artifacts/{id}/lineage", tag = "artifacts",
    params(
        ("id" = String, Path, description = "The artifact"),
        ("version" = Option<u32>, Query, description = "The version; the newest by default", minimum = 1),
        ("direction" = Option<String>, Query, description = "`backward`: causes; `forward`: effects; `both` (the default)"),
        ("depth" = Option<u64>, Query, description = "Edges to the farthest node; default 10", minimum = 1, maximum = 1000),
        ("limit" = Option<u64>, Query, description = "Most nodes in each direction; default 500", minimum = 1, maximum = 2000),
        ("format" = Option<String>, Query, description = "`json` (the default) or `svg`"),
    ),
    responses((status = 200, description = "The graph", content(
        (LineageView = "application/json"), (String = "image/svg+xml"),
    )))
)]
pub(crate) async fn of_artifact(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<ArtifactId>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let number = query.number("version", 1, u32::MAX.into()).map(|number| number as u32);
    let asked = Asked::of(&mut query);
    query.finish()?;
    let number = version(&shared, caller.principal(), id, number).await?.number;
    asked.answer(&shared, caller.principal(), LineageNode::Artifact(id, number)).await
}

/// Shows the causes and effects of any node of the lineage, as a graph.
#[utoipa::path(
    get, path = "/v1/lineage", tag = "artifacts",
    params(
        ("node" = String, Query, description = "`call:ID`, `artifact:ID@VERSION`, `tool:DIGEST`, `policy:DIGEST` or `approval:ID`"),
        ("direction" = Option<String>, Query, description = "`backward`: causes; `forward`: effects; `both` (the default)"),
        ("depth" = Option<u64>, Query, description = "Edges to the farthest node; default 10", minimum = 1, maximum = 1000),
        ("limit" = Option<u64>, Query, description = "Most nodes in each direction; default 500", minimum = 1, maximum = 2000),
        ("format" = Option<String>, Query, description = "`json` (the default) or `svg`"),
    ),
    responses((status = 200, description = "The graph", content(
        (LineageView = "application/json"), (String = "image/svg+xml"),
    )))
)]
pub(crate) async fn of_node(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let node = query.optional::<LineageNode>("node");
    if node.is_none() {
        query.fault("node", "is required");
    }
    let asked = Asked::of(&mut query);
    query.finish()?;
    let node = node.ok_or_else(Problem::not_found)?;
    asked.answer(&shared, caller.principal(), node).await
}

/// Parameters of a graph.
struct Asked {
    directions: &'static [LineageDirection],
    depth: u32,
    limit: usize,
    is_svg: bool,
}

impl Asked {
    fn of(query: &mut Query) -> Self {
        let directions: &[LineageDirection] = match query.optional::<String>("direction").as_deref()
        {
            Some("backward") => &[LineageDirection::Backward],
            Some("forward") => &[LineageDirection::Forward],
            None | Some("both") => &[LineageDirection::Backward, LineageDirection::Forward],
            Some(_) => {
                query.fault("direction", "must be `backward`, `forward` or `both`");
                &[]
            }
        };
        let is_svg = match query.optional::<String>("format").as_deref() {
            None | Some("json") => false,
            Some("svg") => true,
            Some(_) => {
                query.fault("format", "must be `json` or `svg`");
                false
            }
        };
        let depth = query.number("depth", 1, 1_000).unwrap_or(10) as u32;
        let limit = query.number("limit", 1, MAX_LINEAGE_NODES as u64).unwrap_or(500) as usize;
        Self { directions, depth, limit, is_svg }
    }

    async fn answer(
        self,
        shared: &Shared,
        who: &Principal,
        node: LineageNode,
    ) -> Result<Response, Problem> {
        let bounds = (self.depth, self.limit);
        let named = shared.engine.lineage(who, node, self.directions, bounds).await?;
        if !self.is_svg {
            return Ok(reply::ok(&LineageView::of(node, &named)));
        }
        let kind = HeaderValue::from_static("image/svg+xml");
        let mut response = reply::of(StatusCode::OK, kind, lineage_svg::draw(&named).into());
        let policy = HeaderValue::from_static("default-src 'none'; sandbox");
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
        Ok(response)
    }
}

/// Where an artifact comes from: the calls of its versions, and what was said about them.
#[derive(Serialize, ToSchema)]
#[schema(as = Provenance)]
pub(crate) struct ProvenanceView {
    #[schema(value_type = String)]
    id: ArtifactId,
    intent: Option<String>,
    task: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Newest first.
    versions: Vec<MadeView>,
    verdicts: Vec<VerdictView>,
}

/// The call that made a version, as its receipt says.
#[derive(Serialize, ToSchema)]
#[schema(as = ProvenanceVersion)]
struct MadeView {
    version: u32,
    #[schema(value_type = String)]
    digest: Digest,
    labels: Vec<String>,
    #[schema(value_type = Option<String>)]
    call_id: Option<CallId>,
    /// Name and version of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    tool_digest: Option<Digest>,
    /// Rules that allowed the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    policy: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    approval: Option<ApprovalId>,
    /// Call that made the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    parent: Option<CallId>,
    /// Artifacts that the call was given.
    #[schema(value_type = Vec<Object>)]
    inputs: Vec<GivenArtifact>,
}

/// Versions whose calls are looked up.
const MAX_MADE: usize = 50;

/// Shows the calls that made the versions of an artifact, with their tools, rules, approvals and inputs.
#[utoipa::path(
    get, path = "/v1/artifacts/{id}/provenance", tag = "artifacts",
    params(("id" = String, Path, description = "The artifact")),
    responses((status = 200, description = "The provenance", body = ProvenanceView))
)]
pub(crate) async fn provenance(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<ArtifactId>,
) -> Result<Response, Problem> {
    let who = caller.principal();
    let artifact = find(&shared, who, id).await?;
    let mut versions = Vec::new();
    for version in shared.engine.artifact_versions(who, id, None, MAX_MADE).await? {
        let receipt = match version.content.call {
            Some(call) => shared.engine.receipt(who, call).await?,
            None => None,
        };
        let content = version.content;
        versions.push(MadeView {
            version: version.number,
            digest: content.digest,
            labels: content.about.labels,
            call_id: content.call,
            ..MadeView::by(receipt)
        });
    }
    let verdicts = shared.engine.artifact_verdicts(who, id, super::MAX_VERSIONS).await?;
    Ok(reply::ok(&ProvenanceView {
        id,
        intent: artifact.about.intent,
        task: artifact.about.task,
        created_at: artifact.created_at,
        versions,
        verdicts: verdicts.into_iter().map(VerdictView::of).collect(),
    }))
}

impl MadeView {
    fn by(receipt: Option<Receipt>) -> Self {
        let tool = receipt.as_ref().map(|receipt| &receipt.tool);
        let decision = receipt.as_ref().and_then(|receipt| receipt.decision.as_ref());
        let cause = receipt.as_ref().and_then(|receipt| receipt.cause.as_ref());
        Self {
            version: 0,
            digest: Digest::of(b""),
            labels: Vec::new(),
            call_id: None,
            tool: tool.map(|tool| format!("{} {}", tool.name, tool.version)),
            tool_digest: tool.map(|tool| tool.digest),
            policy: decision.map(|decision| decision.policy),
            approval: decision.and_then(|decision| decision.approval),
            parent: cause.and_then(|cause| cause.parent),
            inputs: receipt.map(|receipt| receipt.inputs).unwrap_or_default(),
        }
    }
}
