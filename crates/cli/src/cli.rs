//! Commands and flags. Values are taken as text and parsed later, so that all problems are reported
//! at once.

mod artifacts;
mod conversations;
mod ledger;
mod lifecycle;
mod mcp;
mod models;
mod plans;
mod rules;
mod sandboxes;
mod service;
mod skills;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use ringfence_sandbox::Language;
use ringfence_types::{Isolation, Layer};

pub(crate) use self::artifacts::{ArtifactCommand, GraphFormat};
pub(crate) use self::conversations::{ChatArgs, SessionCommand};
pub(crate) use self::ledger::{
    AuditArgs, EraseArgs, ExportArgs, LedgerCommand, MaintenanceArgs, PruneArgs, ReplayArgs,
    VerifyArgs,
};
pub(crate) use self::lifecycle::{
    DiscoverArgs, GrantArgs, ToolApproveArgs, ToolChangeArgs, ToolCommand, ToolGrantArgs,
    ToolVersionArgs,
};
pub(crate) use self::mcp::{
    McpAddArgs, McpArgs, McpClient, McpCommand, McpInstallArgs, McpListArgs, McpRemoveArgs,
};
pub(crate) use self::models::ModelsCommand;
pub(crate) use self::plans::{PlanCommand, PlanIdArgs, PlanStepArgs};
pub(crate) use self::rules::PolicyCommand;
pub(crate) use self::sandboxes::{SandboxCommand, SandboxExecArgs, SandboxLimitArgs};
pub(crate) use self::service::{
    ApprovalsArgs, ApproveArgs, CallArgs, CallsArgs, CancelArgs, ClientArgs, ConfigCommand,
    DemoArgs, DenyArgs, DlqCommand, DoctorArgs, EventsArgs, HoldsArgs, KeyCommand, LogsArgs,
    MigrateArgs, ProcessesArgs, SecretCommand, SecretSetArgs, ServeArgs, SettingsArgs, ShowArgs,
    ToolsArgs, UsageArgs, WaitArgs,
};
pub(crate) use self::skills::SkillCommand;
use crate::{
    artifacts as artifact_command, call, calls, cancel, chat, completions, dead_letters, demo,
    discover, doctor, events, failure::Failure, holds, image, key, ledger as book, logs,
    mcp as mcp_command, models as models_command, plans as plan_command, policy, processes,
    retention, run, sandbox, secret, selftest, serve, settings, shell, show, skill, tool, tools,
    usage, wait,
};

/// Runs tools and code that you do not trust in Linux sandboxes, behind policy, on a signed record
#[derive(Debug, Parser)]
#[command(name = "ringfence", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  ringfence run -c 'print(6*7)'
  ringfence run --timeout 5s --memory 256M script.py
  ringfence run --json -- /usr/bin/gcc --version
  ringfence serve
  ringfence call echo text=hello
  ringfence doctor
  ringfence selftest --hostile";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program in a fresh sandbox and exit with its code
    Run(Box<RunArgs>),
    /// Open a shell in a fresh sandbox
    Shell(Box<ShellArgs>),
    /// Run the server: tools over HTTP, behind policy, each call in a sandbox
    Serve(Box<ServeArgs>),
    /// Prepare a PostgreSQL database for servers, or bring it up to date
    Migrate(Box<MigrateArgs>),
    /// Call a tool and print its result
    Call(Box<CallArgs>),
    /// List tools, or show one
    Tools(ToolsArgs),
    /// Approve, grant, switch off and withdraw tools
    #[command(subcommand)]
    Tool(ToolCommand),
    /// Ask for a tool that is missing, or list what was asked for
    Discover(DiscoverArgs),
    /// List calls, newest first
    Calls(CallsArgs),
    /// Show everything about a call: decision, timeline, result, usage, receipt
    Show(ShowArgs),
    /// Wait for the end of a call and print its result
    Wait(WaitArgs),
    /// Print the output of a call
    Logs(LogsArgs),
    /// Cancel a call
    Cancel(CancelArgs),
    /// List calls that wait for approval, or show one
    Holds(HoldsArgs),
    /// Approve a held call
    Approve(Box<ApproveArgs>),
    /// Deny a held call
    Deny(DenyArgs),
    /// List approvals, or revoke one
    Approvals(ApprovalsArgs),
    /// Follow the events of all calls
    Events(EventsArgs),
    /// Show what calls took, per day or hour, key and tool
    Usage(UsageArgs),
    /// List the servers on the same database
    Processes(ProcessesArgs),
    /// List, replay and remove dead letters: messages that could not be handled
    #[command(subcommand)]
    Dlq(DlqCommand),
    /// Create, use and remove sandboxes that stay between programs
    #[command(subcommand)]
    Sandbox(SandboxCommand),
    /// Write, check, test and register skills
    #[command(subcommand)]
    Skill(SkillCommand),
    /// Store, list and read artifacts: files with versions and lineage
    #[command(subcommand)]
    Artifact(ArtifactCommand),
    /// Create, list and revoke API keys
    #[command(subcommand)]
    Key(KeyCommand),
    /// Set, list and remove secrets that are added to requests of tools
    #[command(subcommand)]
    Secret(SecretCommand),
    /// Offer the tools of a server to an MCP client on standard input and output
    Mcp(McpArgs),
    /// Test, replay, shadow and explain policy rules
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// List entries of the ledger
    Audit(AuditArgs),
    /// Export the proof of a call or session to a file
    Export(ExportArgs),
    /// Verify an exported proof or the whole ledger, without a server
    Verify(VerifyArgs),
    /// Erase the records of a call or session; the ledger stays
    Erase(EraseArgs),
    /// Erase the records of calls that ended long ago; the ledger stays
    Prune(PruneArgs),
    /// Repeat a call of a pure tool and compare the results
    Replay(ReplayArgs),
    /// Show checkpoints and signing keys of the ledger; rotate the key; repair
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Fill a server with example calls for a first look, or remove them
    Demo(DemoArgs),
    /// Show the settings of the server
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Check sandbox support on this host, and the broker; suggest fixes
    Doctor(DoctorArgs),
    /// Run the attack suite against sandboxes on this host
    Selftest(SelftestArgs),
    /// Import, list and remove root file systems (images)
    #[command(subcommand)]
    Image(ImageCommand),
    /// Get, list and check the weights of models that run in the server
    #[command(subcommand)]
    Models(ModelsCommand),
    /// Talk to a model through the server: answers as they come, tool calls, held calls
    Chat(ChatArgs),
    /// List, show and follow sessions
    #[command(subcommand)]
    Session(SessionCommand),
    /// Run plans: graphs of calls that finish whatever crashes; watch, pause, repair and cancel them
    #[command(subcommand)]
    Plan(PlanCommand),
    /// Print a shell completion script
    Completions {
        /// Name of the shell
        shell: Shell,
    },
}

impl Command {
    pub(crate) fn carry_out(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Run(args) => run::run(*args),
            Self::Shell(args) => shell::shell(*args),
            Self::Serve(args) => serve::serve(&args),
            Self::Migrate(args) => serve::migrate(&args),
            Self::Call(args) => call::call(*args),
            Self::Tools(args) => tools::tools(&args),
            Self::Tool(command) => tool::tool(command),
            Self::Discover(args) => discover::discover(&args),
            Self::Calls(args) => calls::calls(&args),
            Self::Show(args) => show::show(&args),
            Self::Wait(args) => wait::wait(&args),
            Self::Logs(args) => logs::logs(&args),
            Self::Cancel(args) => cancel::cancel(&args),
            Self::Holds(args) => holds::holds(&args),
            Self::Approve(args) => holds::approve(&args),
            Self::Deny(args) => holds::deny(&args),
            Self::Approvals(args) => holds::approvals(&args),
            Self::Events(args) => events::events(&args),
            Self::Usage(args) => usage::usage(&args),
            Self::Processes(args) => processes::processes(&args),
            Self::Dlq(command) => dead_letters::dlq(&command),
            Self::Sandbox(command) => sandbox::sandbox(&command),
            Self::Skill(command) => skill::skill(&command),
            Self::Artifact(command) => artifact_command::artifact(&command),
            Self::Key(command) => key::key(&command),
            Self::Secret(command) => secret::secret(&command),
            Self::Mcp(args) => mcp_command::mcp(&args),
            Self::Policy(command) => policy::policy(&command),
            Self::Audit(args) => book::audit(&args),
            Self::Export(args) => book::export(&args),
            Self::Verify(args) => book::verify(&args),
            Self::Erase(args) => retention::erase(&args),
            Self::Prune(args) => retention::prune(&args),
            Self::Replay(args) => book::replay(&args),
            Self::Ledger(command) => book::ledger(&command),
            Self::Demo(args) => demo::demo(&args),
            Self::Config(command) => settings::config(&command),
            Self::Doctor(args) => doctor::doctor(&args),
            Self::Selftest(args) => selftest::selftest(&args),
            Self::Image(command) => image::image(command),
            Self::Chat(args) => chat::chat(&args),
            Self::Session(command) => chat::session(&command),
            Self::Models(command) => models_command::models(&command),
            Self::Plan(command) => plan_command::plan(&command),
            Self::Completions { shell } => Ok(completions::completions(shell)),
        }
    }
}

const RUN_EXAMPLES: &str = "\
Examples:
  ringfence run -c 'print(6*7)'
  echo 'console.log(6*7)' | ringfence run --lang javascript -
  ringfence run script.py -- --an-argument-of-the-script
  ringfence run --file ./data.csv:data.csv --out result.json:./result.json script.py
  ringfence run --file ./project/: --out build/:./build -- make
  ringfence run --timeout 2s --memory 64M --pids 32 -- sh -c 'echo hello | tr a-z A-Z'

Exit codes: that of the program; 128+n if signal n ended it; 124 if it timed out;
1 if it met another limit; 2 for an error of ringfence or a bad flag; 130 after Ctrl-C.";

#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// Language of the code [default: by extension or `#!` line of FILE; python for -c and -]
    #[arg(long, value_enum)]
    pub(crate) lang: Option<Lang>,
    /// Code to run
    #[arg(short = 'c', value_name = "CODE", allow_hyphen_values = true, conflicts_with = "file")]
    pub(crate) code: Option<OsString>,
    /// File with the code to run; `-` reads it from standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Program in the sandbox and its arguments; after code, arguments of the code
    #[arg(last = true, value_name = "CMD ARGS")]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Copy a file out of the workspace at the end; `DIR/:local` copies a directory; repeatable
    #[arg(long, value_name = "inside:local")]
    pub(crate) out: Vec<OsString>,
    /// Wall-clock limit, such as 500ms or 5s [default: 60s]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) timeout: Option<String>,
    /// Output buffered for a slow reader, per stream; with --json, bytes kept of each stream, head and
    /// tail [default: 8M]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) output: Option<String>,
    /// Stop the program after this much output [default: no limit]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) output_total: Option<String>,
    /// Start of the sandbox
    #[arg(long, value_enum, default_value = "cold")]
    pub(crate) isolation: Tier,
    /// Print one JSON object instead of the output of the program
    #[arg(long)]
    pub(crate) json: bool,
}

/// Root, files, limits and environment of a sandbox.
#[derive(Debug, Default, Args)]
pub(crate) struct PlaceArgs {
    /// Imported image, or a directory if it contains a slash [default: the host's programs]
    #[arg(long, value_name = "IMAGE|DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Copy a file or directory into the workspace; repeatable
    #[arg(long = "file", value_name = "local:inside")]
    pub(crate) file_in: Vec<OsString>,
    /// CPU time of all processes together [default: no limit]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) cpu_time: Option<String>,
    /// Memory, including swap and workspace [default: 512M]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) memory: Option<String>,
    /// Share of processors, such as 0.5 or 2 [default: 1]
    #[arg(long, value_name = "CPUS", allow_negative_numbers = true)]
    pub(crate) cpu: Option<String>,
    /// Number of processes and threads [default: 128]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(crate) pids: Option<String>,
    /// Size of workspace, /tmp and /dev/shm together [default: 128M, at most half the memory]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) disk: Option<String>,
    /// Number of files and directories there [default: 16384]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(crate) inodes: Option<String>,
    /// Open files per process [default: 512]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(crate) open_files: Option<String>,
    /// Network: `none`, or `loopback` for TCP and UDP within the sandbox [default: none]
    #[arg(long, value_name = "NETWORK")]
    pub(crate) network: Option<String>,
    /// Number of pseudo-terminals, for programs such as script and expect [default: 0; shell: 4]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(crate) terminals: Option<String>,
    /// Set an environment variable; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<OsString>,
    /// Run without this layer if the host lacks it; the result names it; repeatable
    #[arg(long, value_enum, value_name = "WALL")]
    pub(crate) allow_missing: Vec<Wall>,
    #[command(flatten)]
    pub(crate) data: DataArgs,
}

#[derive(Debug, Default, Args)]
pub(crate) struct DataArgs {
    /// Data directory, with images and the state of the server [default: $RINGFENCE_DATA, or
    /// ~/.local/share/ringfence; as root /var/lib/ringfence]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

const SHELL_EXAMPLES: &str = "\
Examples:
  ringfence shell
  ringfence shell --root debian --memory 1G
  ringfence shell --file ./project/: -- python3";

#[derive(Debug, Args)]
#[command(after_help = SHELL_EXAMPLES)]
pub(crate) struct ShellArgs {
    /// Program to run instead of a shell
    #[arg(last = true, value_name = "CMD ARGS")]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// End the sandbox after this time [default: 8h]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) timeout: Option<String>,
}

const SELFTEST_EXAMPLES: &str = "\
Each attack runs twice: in a sandbox, where it must fail, and on the host as a control, where a
bounded variant must succeed. It is safe to run and ends by itself. The exit code is 0 only if the
sandbox held in every case.

Examples:
  ringfence selftest --hostile
  ringfence selftest --hostile --only K05 --only filesystem";

#[derive(Debug, Args)]
#[command(after_help = SELFTEST_EXAMPLES)]
pub(crate) struct SelftestArgs {
    /// Run the attack suite
    #[arg(long, required = true)]
    pub(crate) hostile: bool,
    /// Only cases of this group, or whose id begins with this; repeatable
    #[arg(long, value_name = "ID|GROUP")]
    pub(crate) only: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

const IMAGE_EXAMPLES: &str = "\
Examples:
  ringfence image import alpine alpine-minirootfs.tar.gz
  docker save python:3-slim -o python.tar && ringfence image import python python.tar
  ringfence run --root python -c 'print(6*7)'";

#[derive(Debug, Subcommand)]
#[command(after_help = IMAGE_EXAMPLES)]
pub(crate) enum ImageCommand {
    /// Import a directory, a tarball, or an OCI or Docker image archive
    #[command(after_help = IMAGE_EXAMPLES)]
    Import {
        /// Name of the image: a-z, 0-9, `.`, `_` and `-`
        name: String,
        /// Directory or archive
        source: PathBuf,
        /// Copy the directory instead of using it in place
        #[arg(long)]
        copy: bool,
        /// Replace an existing image of that name
        #[arg(long)]
        replace: bool,
        /// Print one JSON object with what was imported and what was left out
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        data: DataArgs,
    },
    /// List images
    List {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        data: DataArgs,
    },
    /// Remove an image; a directory that is used in place is kept
    Rm {
        /// Name of the image
        name: String,
        #[command(flatten)]
        data: DataArgs,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lang {
    #[value(alias = "py", alias = "python3")]
    Python,
    #[value(alias = "js", alias = "node")]
    Javascript,
    #[value(alias = "sh")]
    Bash,
}

impl From<Lang> for Language {
    fn from(lang: Lang) -> Self {
        match lang {
            Lang::Python => Self::Python,
            Lang::Javascript => Self::Javascript,
            Lang::Bash => Self::Bash,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tier {
    /// A new sandbox and a new interpreter
    Cold,
    /// Forked from a prepared interpreter with its libraries loaded (python)
    Zygote,
    /// An interpreter that was started ahead and serves one program (javascript)
    Warm,
}

impl From<Tier> for Isolation {
    fn from(tier: Tier) -> Self {
        match tier {
            Tier::Cold => Self::Cold,
            Tier::Zygote => Self::Zygote,
            Tier::Warm => Self::Warm,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wall {
    /// Limits on memory, CPU and processes of the whole sandbox
    Cgroup,
    /// File access rules in addition to the mounts
    Landlock,
    /// A user namespace of its own
    Userns,
}

impl Wall {
    /// All walls.
    pub(crate) const ALL: [Self; 3] = [Self::Cgroup, Self::Landlock, Self::Userns];

    /// Name on the command line and in settings.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::Landlock => "landlock",
            Self::Userns => "userns",
        }
    }

    /// The layers of this wall.
    pub(crate) fn layers(self) -> &'static [Layer] {
        match self {
            Self::Cgroup => &[Layer::CgroupMemory, Layer::CgroupCpu, Layer::CgroupPids],
            Self::Landlock => &[Layer::Landlock],
            Self::Userns => &[Layer::UserNamespace],
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_are_sound() {
        Cli::command().debug_assert();
    }
}
