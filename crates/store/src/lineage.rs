//! Lineage: which artifact was made by which call, from which others, by which rights.
//!
//! A graph of nodes and edges. An edge leads from a node to one of its causes, so that causes are found by
//! following edges (backward) and effects by following them the other way (forward).

use std::{collections::HashMap, fmt, str::FromStr};

use ringfence_types::{ApprovalId, ArtifactId, CallId, Digest, TenantId};
use uuid::Uuid;

/// Node of the lineage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LineageNode {
    /// Version of an artifact.
    Artifact(ArtifactId, u32),
    /// Call.
    Call(CallId),
    /// Tool, by its digest.
    Tool(Digest),
    /// Rules, by their digest.
    Policy(Digest),
    /// Approval.
    Approval(ApprovalId),
}

/// Relation of a node to its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LineageRelation {
    /// The version was made by the call.
    MadeBy,
    /// The call was given the version.
    Used,
    /// The call ran the tool.
    Ran,
    /// The call was allowed by the rules.
    AllowedBy,
    /// The call was allowed by the approval.
    ApprovedBy,
    /// The call was made by another call.
    ChildOf,
    /// The version follows another one.
    Follows,
    /// The version has the content of an earlier one.
    CopyOf,
}

impl LineageRelation {
    const ALL: [(Self, i64, &'static str); 8] = [
        (Self::MadeBy, 1, "made_by"),
        (Self::Used, 2, "used"),
        (Self::Ran, 3, "ran"),
        (Self::AllowedBy, 4, "allowed_by"),
        (Self::ApprovedBy, 5, "approved_by"),
        (Self::ChildOf, 6, "child_of"),
        (Self::Follows, 7, "follows"),
        (Self::CopyOf, 8, "copy_of"),
    ];

    /// Name on every wire.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(relation, ..)| *relation == self).map_or("", |(.., name)| name)
    }

    pub(crate) fn number(self) -> i64 {
        Self::ALL
            .iter()
            .find(|(relation, ..)| *relation == self)
            .map_or(0, |(_, number, _)| *number)
    }

    pub(crate) fn of_number(number: i64) -> Option<Self> {
        Self::ALL.iter().find(|(_, of, _)| *of == number).map(|(relation, ..)| *relation)
    }
}

/// Edge from a node to one of its causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LineageEdge {
    /// Node.
    pub node: LineageNode,
    /// Cause of the node.
    pub cause: LineageNode,
    /// Relation of the node to the cause.
    pub relation: LineageRelation,
}

impl LineageEdge {
    /// Edge from a node to a cause.
    pub const fn new(node: LineageNode, relation: LineageRelation, cause: LineageNode) -> Self {
        Self { node, cause, relation }
    }

    /// Edges of a version of an artifact.
    pub(crate) fn of_version(
        id: ArtifactId,
        number: u32,
        call: Option<CallId>,
        copy_of: Option<u32>,
    ) -> Vec<Self> {
        let node = LineageNode::Artifact(id, number);
        let edge = |relation, cause| Self::new(node, relation, cause);
        let made = call.map(|call| edge(LineageRelation::MadeBy, LineageNode::Call(call)));
        let earlier = (number > 1)
            .then(|| edge(LineageRelation::Follows, LineageNode::Artifact(id, number - 1)));
        let copied = copy_of.map(|of| edge(LineageRelation::CopyOf, LineageNode::Artifact(id, of)));
        [made, earlier, copied].into_iter().flatten().collect()
    }
}

impl LineageNode {
    /// Kind of the node.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Artifact(..) => "artifact",
            Self::Call(_) => "call",
            Self::Tool(_) => "tool",
            Self::Policy(_) => "policy",
            Self::Approval(_) => "approval",
        }
    }

    /// Bytes of the node, as rows have them: a letter, then the id.
    pub(crate) fn key(&self) -> Vec<u8> {
        match self {
            Self::Artifact(id, version) => {
                [b"a".as_slice(), id.0.as_bytes(), &version.to_be_bytes()].concat()
            }
            Self::Call(id) => [b"c".as_slice(), id.0.as_bytes()].concat(),
            Self::Tool(digest) => [b"t".as_slice(), digest.as_bytes()].concat(),
            Self::Policy(digest) => [b"p".as_slice(), digest.as_bytes()].concat(),
            Self::Approval(id) => [b"v".as_slice(), id.0.as_bytes()].concat(),
        }
    }

    /// Node of these bytes; `None` if they are of no node.
    pub(crate) fn of_key(key: &[u8]) -> Option<Self> {
        let (kind, id) = key.split_first()?;
        let uuid = |id: &[u8]| Uuid::from_slice(id).ok();
        let digest = |id: &[u8]| Some(Digest::from_bytes(id.try_into().ok()?));
        match kind {
            b'a' => {
                let (id, version) = id.split_at_checked(16)?;
                let version = u32::from_be_bytes(version.try_into().ok()?);
                Some(Self::Artifact(ArtifactId(uuid(id)?), version))
            }
            b'c' => uuid(id).map(|id| Self::Call(CallId(id))),
            b't' => digest(id).map(Self::Tool),
            b'p' => digest(id).map(Self::Policy),
            b'v' => uuid(id).map(|id| Self::Approval(ApprovalId(id))),
            _ => None,
        }
    }
}

impl fmt::Display for LineageNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Artifact(id, version) => write!(f, "artifact:{id}@{version}"),
            Self::Call(id) => write!(f, "call:{id}"),
            Self::Tool(digest) => write!(f, "tool:{digest}"),
            Self::Policy(digest) => write!(f, "policy:{digest}"),
            Self::Approval(id) => write!(f, "approval:{id}"),
        }
    }
}

/// Invalid name of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a node: expected artifact:ID@VERSION, call:ID, tool:DIGEST, policy:DIGEST or approval:ID"
)]
pub struct InvalidNode;

impl FromStr for LineageNode {
    type Err = InvalidNode;

    fn from_str(text: &str) -> Result<Self, InvalidNode> {
        let (kind, id) = text.split_once(':').ok_or(InvalidNode)?;
        match kind {
            "artifact" => {
                let (id, version) = id.split_once('@').ok_or(InvalidNode)?;
                let id = id.parse().map_err(|_| InvalidNode)?;
                Ok(Self::Artifact(id, version.parse().map_err(|_| InvalidNode)?))
            }
            "call" => id.parse().map(Self::Call).map_err(|_| InvalidNode),
            "tool" => id.parse().map(Self::Tool).map_err(|_| InvalidNode),
            "policy" => id.parse().map(Self::Policy).map_err(|_| InvalidNode),
            "approval" => id.parse().map(Self::Approval).map_err(|_| InvalidNode),
            _ => Err(InvalidNode),
        }
    }
}

/// Direction of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineageDirection {
    /// Causes of the node.
    Backward,
    /// Effects of the node.
    Forward,
}

/// Query for a part of the lineage.
#[derive(Debug, Clone)]
pub struct LineageQuery {
    /// Tenant.
    pub tenant: TenantId,
    /// Where it begins.
    pub node: LineageNode,
    /// Direction.
    pub direction: LineageDirection,
    /// Edges from the first node to the farthest.
    pub depth: u32,
    /// Most nodes, the first included; at most [`MAX_LINEAGE_NODES`].
    pub limit: usize,
}

/// Most nodes in one answer.
pub const MAX_LINEAGE_NODES: usize = 2_000;

/// Part of the lineage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lineage {
    /// Nodes with their distance from the first, nearest first.
    pub nodes: Vec<(LineageNode, u32)>,
    /// Edges between these nodes.
    pub edges: Vec<LineageEdge>,
    /// Whether nodes within the depth were left out.
    pub is_cut: bool,
}

/// Breadth-first walk, level by level: shared by all backends.
#[derive(Debug)]
pub(crate) struct Walk {
    pub(crate) direction: LineageDirection,
    levels_left: u32,
    level: u32,
    limit: usize,
    frontier: Vec<LineageNode>,
    seen: HashMap<LineageNode, u32>,
    found: Lineage,
}

/// Edges per node that an answer has at most, on average.
const EDGES_PER_NODE: usize = 4;

impl Walk {
    pub(crate) fn new(query: &LineageQuery) -> Self {
        let limit = query.limit.clamp(1, MAX_LINEAGE_NODES);
        Self {
            direction: query.direction,
            levels_left: query.depth,
            level: 0,
            limit,
            frontier: vec![query.node],
            seen: HashMap::from([(query.node, 0)]),
            found: Lineage { nodes: vec![(query.node, 0)], ..Lineage::default() },
        }
    }

    /// Keys of the nodes whose edges are read next; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<Vec<Vec<u8>>> {
        if self.levels_left == 0 || self.frontier.is_empty() || self.found.is_cut {
            return None;
        }
        self.levels_left -= 1;
        self.level += 1;
        Some(std::mem::take(&mut self.frontier).iter().map(LineageNode::key).collect())
    }

    /// Edges that may be read for this level; one more says that there are more.
    pub(crate) fn room(&self) -> usize {
        (self.limit * EDGES_PER_NODE).saturating_sub(self.found.edges.len()) + 1
    }

    /// Takes an edge of this level; `false` if no more are wanted.
    pub(crate) fn take(&mut self, edge: LineageEdge) -> bool {
        if self.found.edges.len() >= self.limit * EDGES_PER_NODE {
            self.found.is_cut = true;
            return false;
        }
        let end = match self.direction {
            LineageDirection::Backward => edge.cause,
            LineageDirection::Forward => edge.node,
        };
        if !self.seen.contains_key(&end) {
            if self.found.nodes.len() >= self.limit {
                self.found.is_cut = true;
                return false;
            }
            self.seen.insert(end, self.level);
            self.found.nodes.push((end, self.level));
            self.frontier.push(end);
        }
        self.found.edges.push(edge);
        true
    }

    pub(crate) fn done(self) -> Lineage {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_reads_what_it_writes() {
        let uuid = Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001);
        let digest = Digest::of(b"x");
        let nodes = [
            LineageNode::Artifact(ArtifactId(uuid), 258),
            LineageNode::Call(CallId(uuid)),
            LineageNode::Tool(digest),
            LineageNode::Policy(digest),
            LineageNode::Approval(ApprovalId(uuid)),
        ];
        for node in nodes {
            assert_eq!(LineageNode::of_key(&node.key()), Some(node));
            assert_eq!(node.to_string().parse(), Ok(node));
        }
        for bad in [&b""[..], b"a", b"c123", b"x0123456789abcdef"] {
            assert_eq!(LineageNode::of_key(bad), None);
        }
        for bad in ["", "call", "call:x", "artifact:1", "tool:sha256:0"] {
            assert_eq!(bad.parse::<LineageNode>(), Err(InvalidNode), "{bad}");
        }
    }

    #[test]
    fn a_relation_reads_its_number() {
        for (relation, number, _) in LineageRelation::ALL {
            assert_eq!(relation.number(), number);
            assert_eq!(LineageRelation::of_number(number), Some(relation));
        }
    }
}
