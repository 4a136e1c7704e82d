//! Arguments of `mcp`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::ClientArgs;

const MCP_EXAMPLES: &str = "\
Examples:
  ringfence mcp install claude-code          show the configuration of Claude Code
  ringfence mcp install cursor --write       write that of Cursor, with a key of its own
  ringfence mcp                              what a client starts

Uses the server of the data directory, or runs one for as long as the client does.";

#[derive(Debug, Args)]
#[command(after_help = MCP_EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Show or write the configuration of an MCP client
    Install(McpInstallArgs),
}

#[derive(Debug, Args)]
pub(crate) struct McpInstallArgs {
    /// The client
    #[arg(value_name = "CLIENT")]
    pub(crate) name: McpClient,
    /// Write the client's configuration, with a new key; the old file is kept beside it
    #[arg(long)]
    pub(crate) write: bool,
    /// Show the configuration; this is the default
    #[arg(long, conflicts_with = "write")]
    pub(crate) print: bool,
    /// File to write [default: the client's own]
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// MCP clients whose configuration is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpClient {
    /// Claude Desktop
    Claude,
    /// Claude Code
    ClaudeCode,
    /// Cursor
    Cursor,
    /// Visual Studio Code, for the current folder
    Vscode,
    /// Codex
    Codex,
}

impl McpClient {
    /// Name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Codex => "codex",
        }
    }
}
