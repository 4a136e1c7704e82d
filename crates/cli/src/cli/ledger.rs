//! Words of the ledger.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ClientArgs, DataArgs};

const VERIFY_EXAMPLES: &str = "\
Examples:
  ringfence verify proof.json
  ringfence verify proof.json --key 5f1a…c0
  ringfence verify --log --data /var/lib/ringfence --checkpoint last-month.txt
  ringfence verify --log --artifacts
  ringfence verify --call 019a8b7c-1234-7abc-8def-0123456789ab

Needs no server, no network and no key of the API. Without --key it shows that everything was signed
by one chain of keys; with it, that it was yours.

Exit codes: 0 everything holds; 1 something does not, and is named; 2 we failed or were misused.";

#[derive(Debug, Args)]
#[command(after_help = VERIFY_EXAMPLES)]
#[group(id = "what", required = true, multiple = false, args = ["file", "log", "call"])]
pub(crate) struct VerifyArgs {
    /// A file that `export` wrote; `-` reads it from standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The whole log of the data directory
    #[arg(long)]
    pub(crate) log: bool,
    /// One call in the data directory
    #[arg(long, value_name = "ID")]
    pub(crate) call: Option<String>,
    /// A checkpoint from earlier, as a file: the log must begin with what it commits to
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "call"])]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Also what is kept beside the log: arguments, results and output, by their digests
    #[arg(long, conflicts_with_all = ["file", "call"])]
    pub(crate) artifacts: bool,
    /// The key that must have signed: its id, or a file with it in PEM
    #[arg(long, value_name = "ID|FILE")]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// Print one object
    #[arg(long)]
    pub(crate) json: bool,
}

const EXPORT_EXAMPLES: &str = "\
Examples:
  ringfence export 019a8b7c-1234-7abc-8def-0123456789ab -o proof.json
  ringfence export support-thread-17 --artifacts -o thread.json
  ringfence verify proof.json";

#[derive(Debug, Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub(crate) struct ExportArgs {
    /// A call's id, or the name of a session
    #[arg(value_name = "CALL|SESSION")]
    pub(crate) id: String,
    /// The name is a session's, even if it looks like a call's id
    #[arg(long)]
    pub(crate) session: bool,
    /// With the arguments, results and output that the entries refer to
    #[arg(long)]
    pub(crate) artifacts: bool,
    /// Where to write it [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

const REPLAY_HELP: &str = "\
The call is made again, through policy and on record like any other, with the recorded arguments and
exactly the recorded tool; what is compared is the digest of the result on both receipts.

Exit codes: 0 equal; 1 different; 2 it cannot be made again, or we failed.";

#[derive(Debug, Args)]
#[command(after_help = REPLAY_HELP)]
pub(crate) struct ReplayArgs {
    /// The call
    #[arg(value_name = "CALL")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// call, decision, approval, resolution, tool, key, checkpoint-key or maintenance
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<String>,
    /// Only about this tool
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Only about this call
    #[arg(long, value_name = "ID")]
    pub(crate) call: Option<String>,
    /// Only about calls of this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Only on behalf of this persona
    #[arg(long, value_name = "ID")]
    pub(crate) persona: Option<String>,
    /// Only from then on: an instant, or how long ago, such as 7d
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only before then
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    /// Print the newest checkpoint, which commits to everything so far; keep it elsewhere
    Checkpoint {
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Check that a server's log has only grown since a checkpoint that you kept
    Consistency {
        /// The checkpoint, as a file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// List the keys that signed the ledger
    Keys {
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Let a new key sign from now on, while a server runs or none does
    Rotate {
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Begin a new log under a new key in the place of one that was lost or erased
    ///
    /// Only while no server runs, and only if the ledger has no entries. The database, the key and
    /// everything else of the old log are moved to a folder `before-…` in the data directory.
    BeginAnew(MaintenanceArgs),
    /// Go on with a database that is older than the newest checkpoint, or of another history
    ///
    /// Only while no server runs. It is put on the ledger. What was revoked or used since the older
    /// database was made counts again: revoke it again first thing.
    AcceptRollback(MaintenanceArgs),
    /// Set rows of keys and approvals to what the ledger says
    ///
    /// Only while no server runs. It is put on the ledger. A key whose secret was changed or lost stays
    /// as a revoked one.
    Repair(MaintenanceArgs),
}

/// Which data directory, and how to print.
#[derive(Debug, Args)]
pub(crate) struct MaintenanceArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// File with settings [default: $RINGFENCE_CONFIG, or ringfence.toml in the data directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print one object
    #[arg(long)]
    pub(crate) json: bool,
}
