//! Arguments of `plan`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ClientArgs;

const RUN_EXAMPLES: &str = "\
Examples:
  ringfence plan preview plan.yaml
  ringfence plan run plan.yaml
  ringfence plan run --detach plan.yaml

Exit codes: 0 completed; 1 failed or cancelled; 2 for an error of ringfence or a plan with problems;
4 paused.";

#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Start a plan from a YAML or JSON file, and watch it
    #[command(after_help = RUN_EXAMPLES)]
    Run {
        /// File with the plan; `-` reads it from standard input
        file: PathBuf,
        /// Print the id and do not watch
        #[arg(long)]
        detach: bool,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Check a file and show what it would do; nothing runs
    Preview {
        /// File with the plan; `-` reads it from standard input
        file: PathBuf,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// List plans, newest first
    Ls {
        /// Only plans with this status
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Show a plan with the state of its steps
    Show(PlanIdArgs),
    /// Watch a plan until it ends or waits for a person; a lost server is waited for
    Watch(PlanIdArgs),
    /// Print the graph of a plan in the language of Graphviz
    Graph(PlanIdArgs),
    /// Begin no further step
    Pause(PlanIdArgs),
    /// Go on with a paused plan
    Resume(PlanIdArgs),
    /// Cancel a plan and its calls
    Cancel(PlanIdArgs),
    /// Try failed steps again; with --step, that step and all after it
    Retry {
        /// Plan
        id: String,
        /// Step to retry from
        #[arg(long, value_name = "STEP")]
        step: Option<String>,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Resume, skip, edit or replace one step
    Step(PlanStepArgs),
    /// Remove a plan that is not under way
    Rm(PlanIdArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PlanIdArgs {
    /// Plan
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PlanStepArgs {
    /// Plan
    pub(crate) id: String,
    /// Step
    pub(crate) step: String,
    /// resume, skip, edit (with --payload) or replace (with --result)
    pub(crate) action: String,
    /// Payload of an edited step, as JSON
    #[arg(long, value_name = "JSON")]
    pub(crate) payload: Option<String>,
    /// Outputs that stand for those of the step, as JSON
    #[arg(long, value_name = "JSON")]
    pub(crate) result: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}
