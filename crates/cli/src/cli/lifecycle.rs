//! Arguments of `tool`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ClientArgs;

const EXAMPLES: &str = "\
Examples:
  ringfence tool import weather.yaml
  ringfence tool openapi https://api.example.com/openapi.json
  ringfence tool list --status proposed
  ringfence tool show weather
  ringfence tool approve weather --host api.example.com --why 'reviewed'
  ringfence tool disable weather --why 'sends too much'
  ringfence tool revoke weather --stop-running --why 'compromised'";

#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum ToolCommand {
    /// List every version of every tool with its status
    List {
        /// Only with this status, such as proposed or quarantined
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Import a tool from a manifest; it waits for an approval
    Import {
        /// Manifest in YAML or JSON; `-` reads standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Import the operations of an OpenAPI document as tools; they wait for an approval
    Openapi {
        /// Document in YAML or JSON: a file, `-`, or a URL that the server fetches
        #[arg(value_name = "FILE|URL")]
        document: String,
        /// Beginning of the names of the tools [default: the title]
        #[arg(long, value_name = "NAME")]
        prefix: Option<String>,
        /// URL of the API [default: the document's own]
        #[arg(long, value_name = "URL")]
        server: Option<String>,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Search the tools that can be called by words
    Search {
        /// Words
        #[arg(required = true)]
        words: Vec<String>,
        /// Search the configured directories too
        #[arg(long)]
        directory: bool,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Propose a document of the configured directories by its name; it waits for an approval
    Add {
        /// Name in the index of a directory
        name: String,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Show the versions of a tool: what it asks for, what was granted, and every change
    Show {
        /// Name of the tool
        name: String,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Approve a proposed or quarantined tool; grants what it asks for unless less is named
    Approve(Box<ToolApproveArgs>),
    /// Change what an approved tool may do
    Grant(Box<ToolGrantArgs>),
    /// Show how the source of a tool changed
    Diff {
        /// Name of the tool
        name: String,
        #[command(flatten)]
        which: ToolVersionArgs,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Switch a disabled or installed tool on
    Enable(ToolChangeArgs),
    /// Switch a tool off for a while
    Disable(ToolChangeArgs),
    /// Quarantine a tool until it is approved again
    Quarantine(ToolChangeArgs),
    /// Withdraw a tool, or reject a proposed one
    Revoke(ToolChangeArgs),
    /// Run the examples of a tool and compare the results
    Test {
        /// Name of the tool
        name: String,
        /// Version [default: the newest]
        #[arg(long, value_name = "VERSION")]
        version: Option<String>,
        /// Show the newest results without running anything
        #[arg(long)]
        last: bool,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// List what a tool keeps between its calls for your tenant
    Data {
        /// Name of the tool
        name: String,
        /// Print a copy of it as JSON, with the contents in base64
        #[arg(long)]
        content: bool,
        /// Remove all of it
        #[arg(long, conflicts_with = "content")]
        delete: bool,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// List the calls of a tool, newest first
    Logs {
        /// Name of the tool
        name: String,
        /// Number of calls
        #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
        #[command(flatten)]
        client: ClientArgs,
    },
}

/// Version of a tool.
#[derive(Debug, Args)]
pub(crate) struct ToolVersionArgs {
    /// Only this version
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,
    /// Only the version with this digest
    #[arg(long, value_name = "DIGEST")]
    pub(crate) digest: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ToolChangeArgs {
    /// Name of the tool
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) which: ToolVersionArgs,
    /// Reason, which goes to the ledger
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: String,
    /// Cancel its running calls, on every server
    #[arg(long)]
    pub(crate) stop_running: bool,
    /// With `revoke`: remove what it keeps between calls, for all tenants
    #[arg(long)]
    pub(crate) delete_data: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ToolApproveArgs {
    /// Name of the tool
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) which: ToolVersionArgs,
    /// Reason, which goes to the ledger
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: String,
    #[command(flatten)]
    pub(crate) grants: GrantArgs,
    /// Approve without switching it on
    #[arg(long)]
    pub(crate) stay_off: bool,
    /// Run its examples afterwards
    #[arg(long, conflicts_with = "stay_off")]
    pub(crate) test: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ToolGrantArgs {
    /// Name of the tool
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) which: ToolVersionArgs,
    /// Reason, which goes to the ledger
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: String,
    #[command(flatten)]
    pub(crate) grants: GrantArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// Permissions. Once one is named, only the named ones are granted.
#[derive(Debug, Default, Args)]
pub(crate) struct GrantArgs {
    /// Grant this host; repeatable
    #[arg(long = "host", value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
    /// Grant this secret; repeatable
    #[arg(long = "secret", value_name = "NAME")]
    pub(crate) secrets: Vec<String>,
    /// Let it call this tool; repeatable
    #[arg(long = "tool", value_name = "NAME")]
    pub(crate) tools: Vec<String>,
    /// Bytes that it may keep between calls, such as 10M
    #[arg(long, value_name = "SIZE")]
    pub(crate) storage: Option<String>,
    /// Memory of one call
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Share of processors, such as 0.5
    #[arg(long, value_name = "CPUS")]
    pub(crate) cpu: Option<String>,
    /// Processes and threads of one call
    #[arg(long, value_name = "COUNT")]
    pub(crate) pids: Option<u32>,
    /// Wall time of one call, such as 5s
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    /// Grant nothing
    #[arg(long, conflicts_with_all = ["hosts", "secrets", "tools", "storage"])]
    pub(crate) nothing: bool,
}

/// Capability that is missing.
#[derive(Debug, Args)]
pub(crate) struct DiscoverArgs {
    /// Work that the tool is to do, in words; without words the discoveries are listed
    #[arg(value_name = "CAPABILITY")]
    pub(crate) words: Vec<String>,
    /// Number of documents that are proposed, best first [default: 3]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(0..=10))]
    pub(crate) propose: Option<u8>,
    /// Reject this discovery with its tools that wait for a decision
    #[arg(long, value_name = "ID", requires = "why", conflicts_with = "words")]
    pub(crate) reject: Option<String>,
    /// Reason of the rejection, which goes to the ledger
    #[arg(long, value_name = "TEXT", requires = "reject")]
    pub(crate) why: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}
