//! Data that a tool keeps between its calls: values by key, and files by path.

use ringfence_types::{TenantId, Timestamp, ToolName};

/// Names that one scope has at most.
pub const MAX_TOOL_DATA_NAMES: u64 = 1_000;

/// Kind of the data of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolDataKind {
    /// Values by key.
    State,
    /// Files by path.
    File,
}

impl ToolDataKind {
    /// Name in tables and on every wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::File => "file",
        }
    }
}

/// Data of one kind that a tool keeps for a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDataScope {
    /// The tenant.
    pub tenant: TenantId,
    /// The tool.
    pub tool: ToolName,
    /// Kind of the data.
    pub kind: ToolDataKind,
}

/// One value or file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDatum {
    /// Key or path.
    pub name: String,
    /// Content.
    pub bytes: Vec<u8>,
}

/// Size of one value or file, and when it changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDatumInfo {
    /// Key or path.
    pub name: String,
    /// Bytes of the content.
    pub size: u64,
    /// Time of the last change.
    pub changed_at: Timestamp,
}

/// Change of the data of a tool.
#[derive(Debug, Clone)]
pub struct ToolDataChange {
    /// The data.
    pub of: ToolDataScope,
    /// New contents; each name once.
    pub put: Vec<ToolDatum>,
    /// Names that are removed; none of them is in `put`.
    pub remove: Vec<String>,
    /// Bytes of all names and contents.
    pub max_bytes: u64,
    /// Time of the change.
    pub at: Timestamp,
}

/// Numbers of the data of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolDataTotals {
    /// Bytes of all names and contents.
    pub bytes: u64,
    /// Number of names.
    pub names: u64,
}

impl ToolDataChange {
    /// Names that the change is about.
    pub(crate) fn names(&self) -> Vec<&str> {
        let put = self.put.iter().map(|datum| datum.name.as_str());
        put.chain(self.remove.iter().map(String::as_str)).collect()
    }

    /// Totals afterwards; `kept` are those of the names that the change is not about.
    pub(crate) fn after(&self, kept: ToolDataTotals) -> ToolDataTotals {
        let bytes = self.put.iter().map(|datum| (datum.name.len() + datum.bytes.len()) as u64);
        ToolDataTotals {
            bytes: kept.bytes + bytes.sum::<u64>(),
            names: kept.names + self.put.len() as u64,
        }
    }

    /// Whether the change is refused: it goes beyond the quota, and does not make the data smaller.
    pub(crate) fn is_too_large(&self, before: ToolDataTotals, after: ToolDataTotals) -> bool {
        (after.bytes > self.max_bytes && after.bytes > before.bytes)
            || (after.names > MAX_TOOL_DATA_NAMES && after.names > before.names)
    }
}

/// Outcome of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolDataChanged {
    /// It is stored whole.
    Done(ToolDataTotals),
    /// It would go beyond the quota to these totals; nothing changed.
    TooLarge(ToolDataTotals),
}
