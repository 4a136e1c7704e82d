//! Arguments of `sandbox`.

use clap::{Args, Subcommand};

use super::ClientArgs;

const EXAMPLES: &str = "\
Examples:
  ID=$(ringfence sandbox create --memory 256M)
  ringfence sandbox cp ./data.csv $ID:
  ringfence sandbox exec $ID -- python3 -c 'print(open(\"data.csv\").read())'
  ringfence sandbox cp $ID:result.json .
  ringfence sandbox rm $ID";

const EXEC_HELP: &str = "\
Output is printed as it comes. Ctrl-C ends the program.

Exit codes: that of the program; 128+n if signal n ended it; 124 if it timed out; 2 for an error of
ringfence or a bad flag; 130 after Ctrl-C.";

#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum SandboxCommand {
    /// List your sandboxes
    Ls {
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Create a sandbox and print its id
    #[command(after_help = EXAMPLES)]
    Create {
        #[command(flatten)]
        limits: Box<SandboxLimitArgs>,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Run a program in a sandbox and exit with its code
    Exec(Box<SandboxExecArgs>),
    /// Copy a file or directory into a sandbox or out of it
    #[command(after_help = EXAMPLES)]
    Cp {
        /// Source: a local path, or ID:PATH of a sandbox's workspace
        from: String,
        /// Target: a local path, or ID:PATH of a sandbox's workspace
        to: String,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// End sandboxes with everything in them
    Rm {
        /// Ids of sandboxes, or their last characters
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
        #[command(flatten)]
        client: ClientArgs,
    },
}

#[derive(Debug, Default, Args)]
pub(crate) struct SandboxLimitArgs {
    /// Memory, including the workspace [default: 512M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Share of processors, such as 0.5 or 2 [default: 1]
    #[arg(long, value_name = "CPUS")]
    pub(crate) cpu: Option<String>,
    /// Number of processes and threads [default: 128]
    #[arg(long, value_name = "COUNT")]
    pub(crate) pids: Option<String>,
    /// Size of workspace, /tmp and /dev/shm together [default: 128M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) disk: Option<String>,
    /// Network: `none`, or `loopback` for TCP and UDP within the sandbox [default: none]
    #[arg(long, value_name = "NETWORK")]
    pub(crate) network: Option<String>,
    /// Ask for network access to a host, such as pypi.org or api.example.com:8443; repeatable
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Tool that its programs may call with the SDK, or `*` for all; repeatable
    #[arg(long, value_name = "TOOL")]
    pub(crate) allow_tool: Vec<String>,
    /// End it after this time without use [default: 10m]
    #[arg(long, value_name = "TIME")]
    pub(crate) idle: Option<String>,
    /// End it after this time in any case [default: 24h]
    #[arg(long, value_name = "TIME")]
    pub(crate) lifetime: Option<String>,
    /// Set an environment variable for all its programs; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = EXEC_HELP)]
pub(crate) struct SandboxExecArgs {
    /// Id of the sandbox, or its last characters
    pub(crate) id: String,
    /// Program and its arguments
    #[arg(last = true, required = true, value_name = "CMD ARGS")]
    pub(crate) command: Vec<String>,
    /// Send standard input to the program
    #[arg(long, short = 'i')]
    pub(crate) stdin: bool,
    /// Working directory [default: /workspace]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,
    /// Set an environment variable; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// Wall-clock limit, at most 24h [default: 60s]
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}
