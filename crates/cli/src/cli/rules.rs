//! Words about policy.

use std::path::PathBuf;

use clap::Subcommand;

use super::ClientArgs;

const SHOW_EXAMPLES: &str = "\
Examples:
  mkdir rules && ringfence policy show > rules/own.rego
  ringfence serve --policy rules
  ringfence policy show --server";

const TEST_EXAMPLES: &str = "\
Examples:
  ringfence policy test
  ringfence policy test ./policy --coverage

Exit codes: 0 all passed; 1 a test failed; 2 the rules cannot be used, or we were misused.";

const REPLAY_EXAMPLES: &str = "\
Examples:
  ringfence policy replay --bundle ./stricter --since 7d
  ringfence policy replay --bundle ./stricter --since 2026-01-01T00:00:00Z --tool http_fetch --json";

const CASE_EXAMPLES: &str = "\
Examples:
  ringfence policy case 019a8b7c-1234-7abc-8def-0123456789ab -o policy/held_test.rego
  ringfence policy case 17";

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Print the built-in rules, to start from, or which rules a server has in force
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        /// Show what a running server has in force: engine, digest and files
        #[arg(long)]
        server: bool,
        /// With --server: what is in force for this tenant
        #[arg(long, value_name = "NAME", default_value = "default", requires = "server")]
        tenant: String,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Show each engine, how it is, which rules it has and what is wrong with them
    Status {
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Show on which calls policies that are tried differ from the one in force
    Canary {
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Run the Rego tests of a folder of rules, without a server
    #[command(after_help = TEST_EXAMPLES)]
    Test {
        /// The folder [default: the current one]
        #[arg(value_name = "DIR", default_value = ".", hide_default_value = true)]
        folder: PathBuf,
        /// Tell which lines of the rules no test evaluates
        #[arg(long)]
        coverage: bool,
        /// Print one object per line
        #[arg(long)]
        json: bool,
    },
    /// Judge stored decisions again by proposed rules, and list what would flip
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay {
        /// Folder of the proposed rules
        #[arg(long, value_name = "DIR")]
        bundle: PathBuf,
        /// Only decisions since then: how long ago, such as 7d, or an instant [default: all]
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Only decisions before then
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
        /// Only about this tool
        #[arg(long, value_name = "NAME")]
        tool: Option<String>,
        /// Only of this tenant [default: all that you may see]
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// List at most so many flips; all are counted
        #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
        limit: u32,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Make a Rego test of a stored decision
    #[command(after_help = CASE_EXAMPLES)]
    Case {
        /// A decision by its number, or a call, whose newest decision is taken
        #[arg(value_name = "DECISION|CALL")]
        id: String,
        /// Write it to this file, which must not exist [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Tell which rule decided about a call, on what, and what would be allowed instead
    Explain {
        /// The call
        #[arg(value_name = "CALL")]
        id: String,
        #[command(flatten)]
        client: ClientArgs,
    },
}
