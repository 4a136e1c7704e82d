//! Arguments of `policy`.

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

Exit codes: 0 all passed; 1 a test failed; 2 the rules cannot be used, or a bad flag.";

const REPLAY_EXAMPLES: &str = "\
Examples:
  ringfence policy replay --bundle ./stricter --since 7d
  ringfence policy replay --bundle ./stricter --since 2026-01-01T00:00:00Z --tool http_fetch --json";

const CASE_EXAMPLES: &str = "\
Examples:
  ringfence policy case 45678cde -o policy/held_test.rego
  ringfence policy case 17";

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Print the built-in rules to start from, or the rules in force on a server
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        /// Show the rules in force on a running server: engine, digest and files
        #[arg(long)]
        server: bool,
        /// With --server: the tenant whose rules are shown
        #[arg(long, value_name = "NAME", default_value = "default", requires = "server")]
        tenant: String,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Show each policy engine: its health, its rules and their problems
    Status {
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Show calls on which shadowed policies differ from the one in force
    Canary {
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Run the Rego tests of a directory of rules, without a server
    #[command(after_help = TEST_EXAMPLES)]
    Test {
        /// Directory of the rules [default: the current one]
        #[arg(value_name = "DIR", default_value = ".", hide_default_value = true)]
        folder: PathBuf,
        /// List the lines of the rules that no test evaluates
        #[arg(long)]
        coverage: bool,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Evaluate stored decisions by proposed rules, and list those that would change
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay {
        /// Directory of the proposed rules
        #[arg(long, value_name = "DIR")]
        bundle: PathBuf,
        /// Only decisions since then: an instant, or how long ago, such as 7d [default: all]
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Only decisions before then
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
        /// Only decisions about this tool
        #[arg(long, value_name = "NAME")]
        tool: Option<String>,
        /// Only decisions of this tenant [default: all that you may see]
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// Number of changed decisions to list; all are counted
        #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
        limit: u32,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Turn a stored decision into a Rego test
    #[command(after_help = CASE_EXAMPLES)]
    Case {
        /// Number of a decision, or id of a call, of which the newest decision is taken
        #[arg(value_name = "DECISION|CALL")]
        id: String,
        /// File to write, which must not exist [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Explain a decision: the rule, its inputs, and the nearest change that is allowed
    Explain {
        /// Id of the call, or its last characters
        #[arg(value_name = "CALL")]
        id: String,
        #[command(flatten)]
        client: ClientArgs,
    },
}
