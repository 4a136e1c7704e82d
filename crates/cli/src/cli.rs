//! The words we understand. Values are taken as they are and parsed later, all problems at once.

mod ledger;
mod rules;
mod sandboxes;
mod service;
mod skills;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use ringfence_sandbox::Language;
use ringfence_types::{Isolation, Layer};

pub(crate) use self::ledger::{
    AuditArgs, ExportArgs, LedgerCommand, MaintenanceArgs, ReplayArgs, VerifyArgs,
};
pub(crate) use self::rules::PolicyCommand;
pub(crate) use self::sandboxes::{SandboxCommand, SandboxExecArgs, SandboxLimitArgs};
pub(crate) use self::service::{
    ApprovalsArgs, ApproveArgs, CallArgs, CallsArgs, CancelArgs, ClientArgs, ConfigCommand,
    DenyArgs, EventsArgs, HoldsArgs, KeyCommand, LogsArgs, ServeArgs, SettingsArgs, ShowArgs,
    ToolsArgs, WaitArgs,
};
pub(crate) use self::skills::SkillCommand;
use crate::{
    call, calls, cancel, completions, doctor, events, failure::Failure, holds, image, key,
    ledger as book, logs, policy, run, sandbox, selftest, serve, settings, shell, show, skill,
    tools, wait,
};

/// Runs code you do not trust in a fresh, locked Linux sandbox, and tells exactly what happened.
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
    /// Open an interactive sandbox with a terminal
    Shell(Box<ShellArgs>),
    /// Serve tools to agents over HTTP, behind policy, each call in a sandbox
    Serve(Box<ServeArgs>),
    /// Call a tool of a server and print its result
    Call(Box<CallArgs>),
    /// List the tools of a server, or show one
    Tools(ToolsArgs),
    /// List calls, newest first
    Calls(CallsArgs),
    /// Show everything about a call: decision, timeline, result, usage, receipt
    Show(ShowArgs),
    /// Wait for the end of a call and print its result
    Wait(WaitArgs),
    /// Print what a call's program wrote
    Logs(LogsArgs),
    /// End a call
    Cancel(CancelArgs),
    /// List calls that wait for a decision, or show one
    Holds(HoldsArgs),
    /// Let a held call run, after seeing exactly what would happen
    Approve(Box<ApproveArgs>),
    /// Refuse a held call
    Deny(DenyArgs),
    /// List what was approved, or take it back
    Approvals(ApprovalsArgs),
    /// Follow what happens to all calls
    Events(EventsArgs),
    /// Make, use and remove sandboxes of a server that are kept between programs
    #[command(subcommand)]
    Sandbox(SandboxCommand),
    /// Write, check, test and register skills
    #[command(subcommand)]
    Skill(SkillCommand),
    /// Make, list and revoke keys of a server
    #[command(subcommand)]
    Key(KeyCommand),
    /// Test rules, try them on the past and beside others, and tell how and why they decide
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// List what happened, from the ledger
    Audit(AuditArgs),
    /// Write one file that proves a call or a session
    Export(ExportArgs),
    /// Check that nothing on record was changed, without a server
    Verify(VerifyArgs),
    /// Make a call of a pure tool again and compare what it gives
    Replay(ReplayArgs),
    /// Show what commits to the ledger and who signs it; change the key
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Show the settings of `serve`
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Tell what this host offers, what is missing, and how to mend it
    Doctor(JsonArgs),
    /// Attack this host's sandboxes and tell whether they held
    Selftest(SelftestArgs),
    /// Import, list and remove root file systems for `--root`
    #[command(subcommand)]
    Image(ImageCommand),
    /// Print a script that completes our words in a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

impl Command {
    pub(crate) fn carry_out(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Run(args) => run::run(*args),
            Self::Shell(args) => shell::shell(*args),
            Self::Serve(args) => serve::serve(&args),
            Self::Call(args) => call::call(*args),
            Self::Tools(args) => tools::tools(&args),
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
            Self::Sandbox(command) => sandbox::sandbox(&command),
            Self::Skill(command) => skill::skill(&command),
            Self::Key(command) => key::key(&command),
            Self::Policy(command) => policy::policy(&command),
            Self::Audit(args) => book::audit(&args),
            Self::Export(args) => book::export(&args),
            Self::Verify(args) => book::verify(&args),
            Self::Replay(args) => book::replay(&args),
            Self::Ledger(command) => book::ledger(&command),
            Self::Config(command) => settings::config(&command),
            Self::Doctor(args) => doctor::doctor(&args),
            Self::Selftest(args) => selftest::selftest(&args),
            Self::Image(command) => image::image(command),
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

Exit codes: the program's own; 128+n if signal n ended it; 124 if its time was over;
1 if it met another limit; 2 if we failed or were misused; 130 after Ctrl-C.";

#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// Language of the code; else told by FILE's extension or `#!` line, and python for -c and -
    #[arg(long, value_enum)]
    pub(crate) lang: Option<Lang>,
    /// Code to run
    #[arg(short = 'c', value_name = "CODE", allow_hyphen_values = true, conflicts_with = "file")]
    pub(crate) code: Option<OsString>,
    /// File with the code to run; `-` reads it from standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// A program of the sandbox's root with its arguments; after code, the code's arguments
    #[arg(last = true, value_name = "CMD ARGS")]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Copy a file of the workspace out after the end; `DIR/:local` copies a directory
    #[arg(long, value_name = "inside:local")]
    pub(crate) out: Vec<OsString>,
    /// Wall-clock time, such as 500ms or 5s [default: 60s]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) timeout: Option<String>,
    /// Bytes by which the program may be ahead of our reader on each output stream; with --json,
    /// bytes kept of each, its head and its tail [default: 8M]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) output: Option<String>,
    /// Bytes of output after which the program is stopped [default: none]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) output_total: Option<String>,
    /// How the sandbox comes about
    #[arg(long, value_enum, default_value = "cold")]
    pub(crate) isolation: Tier,
    /// Print one object instead of the program's output
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a sandbox is given, whatever runs in it.
#[derive(Debug, Default, Args)]
pub(crate) struct PlaceArgs {
    /// Imported image, or a directory if it contains a slash [default: the host's programs]
    #[arg(long, value_name = "IMAGE|DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Put a file or directory into the workspace
    #[arg(long = "file", value_name = "local:inside")]
    pub(crate) file_in: Vec<OsString>,
    /// CPU time of all processes together [default: none]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) cpu_time: Option<String>,
    /// Memory, swap and workspace included [default: 512M]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) memory: Option<String>,
    /// Share of processors, such as 0.5 or 2 [default: 1]
    #[arg(long, value_name = "CPUS", allow_negative_numbers = true)]
    pub(crate) cpu: Option<String>,
    /// Processes and threads together [default: 128]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(crate) pids: Option<String>,
    /// Bytes in the workspace, /tmp and /dev/shm together [default: 128M, at most half the memory]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) disk: Option<String>,
    /// Files and directories in the same places [default: 16384]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(crate) inodes: Option<String>,
    /// Open descriptors of one process [default: 512]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(crate) open_files: Option<String>,
    /// Network inside: `none`, or `loopback` for TCP and UDP among its own programs [default: none]
    #[arg(long, value_name = "NETWORK")]
    pub(crate) network: Option<String>,
    /// Terminals at one time, for programs such as script and expect [default: 0; shell: 4]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(crate) terminals: Option<String>,
    /// Set a variable of the program's environment
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<OsString>,
    /// Run without this wall if the host lacks it; the result names it
    #[arg(long, value_enum, value_name = "WALL")]
    pub(crate) allow_missing: Vec<Wall>,
    #[command(flatten)]
    pub(crate) data: DataArgs,
}

#[derive(Debug, Default, Args)]
pub(crate) struct DataArgs {
    /// Where images and a server's state live [default: $RINGFENCE_DATA, or
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
    /// The program to run instead of a shell
    #[arg(last = true, value_name = "CMD ARGS")]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// End the sandbox after this time [default: 8h]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) timeout: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct JsonArgs {
    /// Print one object
    #[arg(long)]
    pub(crate) json: bool,
}

const SELFTEST_EXAMPLES: &str = "\
Each attack runs twice: in a sandbox, where it must be held, and on the host, where a bounded
variant must work, because a wall that stops what nothing could do proves nothing. It is safe to
run and ends by itself. The exit code is 0 only if every case held.

Examples:
  ringfence selftest --hostile
  ringfence selftest --hostile --only K05 --only filesystem";

#[derive(Debug, Args)]
#[command(after_help = SELFTEST_EXAMPLES)]
pub(crate) struct SelftestArgs {
    /// Run the attack suite
    #[arg(long, required = true)]
    pub(crate) hostile: bool,
    /// Only cases whose id begins with this, or whose group it is
    #[arg(long, value_name = "ID|GROUP")]
    pub(crate) only: Vec<String>,
    /// Print one object
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
    /// Import a directory, a tarball of one, or an OCI or Docker image archive
    #[command(after_help = IMAGE_EXAMPLES)]
    Import {
        /// Its name from now on: a-z, 0-9, `.`, `_` and `-`
        name: String,
        /// The directory or archive
        source: PathBuf,
        /// Copy a directory instead of using it where it is
        #[arg(long)]
        copy: bool,
        /// Replace an image of the same name
        #[arg(long)]
        replace: bool,
        /// Print what was imported as one object, what was left out included
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        data: DataArgs,
    },
    /// List the images
    List {
        /// Print one object per line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        data: DataArgs,
    },
    /// Remove an image; a directory that is used where it is stays
    Rm {
        /// Its name
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
    /// Built when asked for
    Cold,
    /// Forked from an interpreter with its libraries loaded (python)
    Zygote,
    /// An interpreter that waits for its one program (javascript)
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
    /// Limits on memory, processors and processes of the whole sandbox
    Cgroup,
    /// File access rules beside the mounts
    Landlock,
    /// The sandbox's own user namespace
    Userns,
}

impl Wall {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Cgroup, Self::Landlock, Self::Userns];

    /// As it is written on the command line and in settings.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::Landlock => "landlock",
            Self::Userns => "userns",
        }
    }

    /// The layers of a result that this wall is made of.
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
