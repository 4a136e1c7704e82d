//! View of the state of a tool version.

use ringfence_engine::{
    ProposedTool, ToolDifference, ToolHistoryEntry, ToolState,
    data::{DefinitionChange, HttpOperation, Recipe},
};
use ringfence_types::{
    Digest, KeyId, LifecycleEvent, Origin, Timestamp, ToolPermissions, ToolRef, ToolStatus,
};
use serde::Serialize;
use utoipa::ToSchema;

/// State of one version of a tool.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolState)]
pub(crate) struct ToolStateView<'a> {
    name: &'a str,
    version: &'a str,
    /// Digest of everything that makes the tool.
    #[schema(value_type = String)]
    digest: Digest,
    /// `discovered`, `proposed`, `approved`, `installed`, `active`, `disabled`, `quarantined` or `revoked`.
    #[schema(value_type = String)]
    status: ToolStatus,
    /// `builtin`, `folder`, `upload`, `manifest`, `openapi` or `mcp`.
    #[schema(value_type = String)]
    origin: Origin,
    /// File, URL or server that it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    /// Capabilities, as policy knows them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    safety_flags: Vec<&'a str>,
    /// Program or requests that it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<String>,
    /// Permissions that it asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    asks: Option<&'a ToolPermissions>,
    /// Meaning of these permissions, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    risks: Vec<String>,
    /// Permissions that were granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    grants: Option<&'a ToolPermissions>,
    /// Version whose place it is to take, because their source changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    replaces: Option<Digest>,
    /// Key that made the last change; none if the server made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    changed_by: Option<KeyId>,
    /// Reason of the last change.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    changed_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    created_at: Option<Timestamp>,
}

impl<'a> ToolStateView<'a> {
    pub(crate) fn of(state: &'a ToolState) -> Self {
        let about = state.row.as_ref().map(|row| &row.about);
        let definition = state.definition.as_ref();
        let asks = about.map(|about| &about.asks).filter(|_| definition.is_some());
        Self {
            name: state.tool.name.as_str(),
            version: &state.tool.version,
            digest: state.tool.digest,
            status: state.status,
            origin: state.origin,
            source: about.map(|about| about.source.as_str()),
            description: definition.map(|definition| definition.description.as_str()),
            safety_flags: definition
                .map(|definition| definition.safety_flags.iter().map(String::as_str).collect())
                .unwrap_or_default(),
            runs: definition.map(|definition| runs(&definition.runs)),
            asks,
            risks: asks.map(ToolPermissions::in_words).unwrap_or_default(),
            grants: about.and_then(|about| about.grants.as_ref()),
            replaces: about.and_then(|about| about.replaces),
            changed_by: about.and_then(|about| about.by),
            why: about.map(|about| about.why.as_str()),
            changed_at: about.map(|about| about.changed_at),
            created_at: about.map(|about| about.created_at),
        }
    }
}

fn runs(recipe: &Recipe) -> String {
    match recipe {
        Recipe::Command(command) => match &command.image {
            Some(image) => format!("container of image `{image}`: {}", command.argv.join(" ")),
            None => format!("program in a sandbox: {}", command.argv.join(" ")),
        },
        Recipe::Mcp(tool) => format!("tool `{}` of MCP server `{}`", tool.tool, tool.server),
        Recipe::Http(tool) => {
            let of = |one: &HttpOperation| format!("{} {}{}", one.method, one.server, one.path);
            let all: Vec<_> = tool.operations.iter().take(8).map(of).collect();
            format!("requests: {}", all.join(", "))
        }
    }
}

/// States of tool versions.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolStateList)]
pub(crate) struct ToolStateListView<'a> {
    pub(crate) tools: Vec<ToolStateView<'a>>,
    pub(crate) count: usize,
}

/// All versions of a tool and what became of them.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolLifecycle)]
pub(crate) struct ToolLifecycleView<'a> {
    pub(crate) name: &'a str,
    /// Versions, oldest first.
    pub(crate) versions: Vec<ToolStateView<'a>>,
    /// Changes, oldest first, as the ledger has them.
    pub(crate) history: Vec<TransitionView<'a>>,
}

/// One change in the lifecycle of a tool version.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolTransition)]
pub(crate) struct TransitionView<'a> {
    /// Index of its entry in the ledger.
    entry: u64,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// `propose`, `approve`, `install`, `enable`, `disable`, `quarantine` or `revoke`.
    #[schema(value_type = String)]
    event: LifecycleEvent,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    from: Option<ToolStatus>,
    #[schema(value_type = String)]
    to: ToolStatus,
    version: &'a str,
    #[schema(value_type = String)]
    digest: Digest,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    by: Option<KeyId>,
    why: &'a str,
}

impl<'a> TransitionView<'a> {
    pub(crate) fn of(entry: &'a ToolHistoryEntry) -> Self {
        let said = &entry.transition;
        Self {
            entry: entry.index,
            at: entry.at,
            event: said.transition,
            from: said.from,
            to: said.to,
            version: &said.tool.version,
            digest: said.tool.digest,
            by: said.by,
            why: &said.why,
        }
    }
}

/// Differences between two versions of a tool.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolDifference)]
pub(crate) struct ToolDifferenceView<'a> {
    /// Version that was known before: `name`, `version`, `digest`.
    #[schema(value_type = Object)]
    before: &'a ToolRef,
    /// Version that is to take its place.
    #[schema(value_type = Object)]
    after: &'a ToolRef,
    /// Differences: `path`, and `before` and `after` as JSON.
    #[schema(value_type = Vec<Object>)]
    changes: &'a [DefinitionChange],
}

impl<'a> ToolDifferenceView<'a> {
    pub(crate) fn of(difference: &'a ToolDifference) -> Self {
        let ToolDifference { before, after, changes } = difference;
        Self { before, after, changes }
    }
}

/// A proposed tool.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ProposedTool)]
pub(crate) struct ProposedToolView<'a> {
    name: &'a str,
    version: &'a str,
    #[schema(value_type = String)]
    digest: Digest,
    #[schema(value_type = String)]
    status: ToolStatus,
    /// Whether it was unknown or withdrawn before.
    is_new: bool,
    /// Version that was quarantined or withdrawn because of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    replaces: Option<Digest>,
}

impl<'a> ProposedToolView<'a> {
    pub(crate) fn of(proposed: &'a ProposedTool) -> Self {
        Self {
            name: proposed.tool.name.as_str(),
            version: &proposed.tool.version,
            digest: proposed.tool.digest,
            status: proposed.status,
            is_new: proposed.is_new,
            replaces: proposed.replaces,
        }
    }
}
