//! Arguments of `artifact`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use super::ClientArgs;

const EXAMPLES: &str = "\
Examples:
  ringfence artifact put report.csv
  ringfence call code_execute code='print(open(\"in\").read())' 'files={\"in\": {\"artifact\": \"sha256:…\"}}'
  ringfence artifact list --label web
  ringfence artifact get 019a8b7c -o report.csv
  ringfence artifact lineage 019a8b7c --format svg > lineage.svg";

#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum ArtifactCommand {
    /// List artifacts, newest first
    #[command(alias = "search")]
    List {
        /// Only with this text in the title
        title: Option<String>,
        /// Only of this kind: code, document, design, analysis, config or data
        #[arg(long, value_name = "KIND")]
        kind: Option<String>,
        /// Only with this tag
        #[arg(long)]
        tag: Option<String>,
        /// Only with this label
        #[arg(long)]
        label: Option<String>,
        /// Only those that this call made
        #[arg(long, value_name = "CALL")]
        call: Option<String>,
        /// Number of artifacts
        #[arg(long, default_value_t = 50)]
        limit: usize,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Show an artifact with its newest version
    Show {
        /// Artifact
        id: String,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Write the content of an artifact to standard output or a file
    Get {
        /// Artifact
        id: String,
        /// Version [default: the newest]
        #[arg(long, value_name = "N")]
        version: Option<u32>,
        /// File to write; it must not exist
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Store a file as a new artifact, or as a new version of one; prints the id
    Put {
        /// File; `-` reads standard input
        file: PathBuf,
        /// Artifact to which a version is added
        #[arg(long, value_name = "ARTIFACT")]
        to: Option<String>,
        /// Title [default: the name of the file]
        #[arg(long)]
        title: Option<String>,
        /// Description of the changes
        #[arg(long)]
        changes: Option<String>,
        /// Label of the source of the content; repeatable
        #[arg(long)]
        label: Vec<String>,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// List the versions of an artifact
    History {
        /// Artifact
        id: String,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Add a version with the content of an earlier one
    Rollback {
        /// Artifact
        id: String,
        /// Version to go back to
        version: u32,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Compare the content of a version with its digest
    Verify {
        /// Artifact
        id: String,
        /// Version [default: the newest]
        #[arg(long, value_name = "N")]
        version: Option<u32>,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Show what an artifact came from and what came of it
    Lineage {
        /// Artifact
        id: String,
        /// Version [default: the newest]
        #[arg(long, value_name = "N")]
        version: Option<u32>,
        /// Causes, effects or both
        #[arg(long, value_enum, default_value = "both")]
        direction: Direction,
        /// Edges to the farthest node
        #[arg(long, default_value_t = 10)]
        depth: u32,
        /// Form of the graph
        #[arg(long, value_enum, default_value = "text")]
        format: GraphFormat,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Show numbers and quota of the tenant's artifacts
    Stats {
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Remove an artifact with all its versions
    Rm {
        /// Artifact
        id: String,
        #[command(flatten)]
        client: ClientArgs,
    },
}

impl ArtifactCommand {
    pub(crate) fn client(&self) -> &ClientArgs {
        match self {
            Self::List { client, .. }
            | Self::Show { client, .. }
            | Self::Get { client, .. }
            | Self::Put { client, .. }
            | Self::History { client, .. }
            | Self::Rollback { client, .. }
            | Self::Verify { client, .. }
            | Self::Lineage { client, .. }
            | Self::Stats { client }
            | Self::Rm { client, .. } => client,
        }
    }
}

/// Direction of a lineage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Direction {
    /// Causes: what it came from
    Backward,
    /// Effects: what came of it
    Forward,
    /// Both
    Both,
}

impl Direction {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Backward => "backward",
            Self::Forward => "forward",
            Self::Both => "both",
        }
    }
}

/// Form of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    /// One line for each edge
    Text,
    /// Drawing
    Svg,
}
