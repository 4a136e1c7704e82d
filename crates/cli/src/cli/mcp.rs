//! Arguments of `mcp`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::ClientArgs;

const MCP_EXAMPLES: &str = "\
Examples:
  ringfence mcp install claude-code          show the configuration of Claude Code
  ringfence mcp install cursor --write       write that of Cursor, with a key of its own
  ringfence mcp                              what a client starts
  ringfence mcp add time -- mcp-server-time  offer the tools of another MCP server

Uses the server of the data directory, or runs one for as long as the client does.";

const ADD_EXAMPLES: &str = "\
Examples:
  ringfence mcp add time --package pypi:mcp-server-time==2026.1.2 -- python3 -m mcp_server_time
  ringfence mcp add far --http https://mcp.example.com/mcp --header 'Authorization: Bearer …'
  ringfence mcp add --file servers.json

A program runs in a session sandbox without network but for the hosts that it is given. Its tools are offered
once each is approved: `ringfence mcp list`, `ringfence tool approve NAME`.";

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
    /// Offer the tools of another MCP server, once they are approved
    Add(Box<McpAddArgs>),
    /// List the MCP servers whose tools are offered, with their state
    List(McpListArgs),
    /// Remove an MCP server and withdraw its tools
    Rm(McpRemoveArgs),
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

#[derive(Debug, Args)]
#[command(after_help = ADD_EXAMPLES)]
pub(crate) struct McpAddArgs {
    /// Name of the server, the prefix of its tools
    pub(crate) name: Option<String>,
    /// Program of the server and its arguments; it runs in a session sandbox
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "http")]
    pub(crate) command: Vec<String>,
    /// Address of a server elsewhere, by streamable HTTP
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http: Option<String>,
    /// Header of every request to it, `NAME: VALUE`
    #[arg(long, value_name = "HEADER", requires = "http")]
    pub(crate) header: Vec<String>,
    /// Package to install before the first start: `pypi:NAME==VERSION` or `npm:NAME@VERSION`
    #[arg(long, value_name = "PACKAGE")]
    pub(crate) package: Vec<String>,
    /// Host that the program may reach
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Variable of the program, `NAME=VALUE`
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) env: Vec<String>,
    /// Memory of the program [default: 512M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<ringfence_types::Bytes>,
    /// Safety flag of its tools [default: none, or external_call with network]
    #[arg(long, value_name = "FLAG")]
    pub(crate) safety_flag: Vec<String>,
    /// Seconds that a call of a tool may take [default: 60]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<u32>,
    /// File with servers, in the form of MCP clients (`mcpServers`)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "command", "http"])]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct McpListArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct McpRemoveArgs {
    /// Name of the server
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}
