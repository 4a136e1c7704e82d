//! Arguments of the ledger commands.

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

Needs no server, no network and no API key. Without --key it verifies that one chain of keys signed
everything; with it, that the chain is yours.

Exit codes: 0 verified; 1 not, with the reason; 2 error of ringfence or a bad flag.";

#[derive(Debug, Args)]
#[command(after_help = VERIFY_EXAMPLES)]
#[group(id = "what", required = true, multiple = false, args = ["file", "log", "call"])]
pub(crate) struct VerifyArgs {
    /// File written by `export`; `-` reads standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Verify the whole ledger of the data directory
    #[arg(long)]
    pub(crate) log: bool,
    /// Verify one call in the data directory, by its whole id
    #[arg(long, value_name = "ID")]
    pub(crate) call: Option<String>,
    /// File with an earlier checkpoint: the ledger must be a continuation of it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "call"])]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Verify stored arguments, results and output too, by their digests
    #[arg(long, conflicts_with_all = ["file", "call"])]
    pub(crate) artifacts: bool,
    /// Key that must have signed: its id, or a PEM file
    #[arg(long, value_name = "ID|FILE")]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

const EXPORT_EXAMPLES: &str = "\
Examples:
  ringfence export 45678cde -o proof.json
  ringfence export support-thread-17 --artifacts -o thread.json
  ringfence verify proof.json";

#[derive(Debug, Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub(crate) struct ExportArgs {
    /// Id of a call, or its last characters, or the name of a session
    #[arg(value_name = "CALL|SESSION")]
    pub(crate) id: String,
    /// Take the name as a session, even if it looks like the id of a call
    #[arg(long)]
    pub(crate) session: bool,
    /// Include the arguments, results and output that the entries refer to
    #[arg(long)]
    pub(crate) artifacts: bool,
    /// File to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

const ERASE_HELP: &str = "\
Erased are arguments, results, output, decisions and events; of a call also those of the calls that it
made. The receipt, with digests, and all entries of the ledger stay, and a further entry says what was
erased: `ringfence verify` holds as before. Calls that have not ended are not erased.

Examples:
  ringfence erase 45678cde --reason 'request 1234'
  ringfence erase support-thread-17";

#[derive(Debug, Args)]
#[command(after_help = ERASE_HELP)]
pub(crate) struct EraseArgs {
    /// Id of a call, or its last characters, or the name of a session
    #[arg(value_name = "CALL|SESSION")]
    pub(crate) id: String,
    /// Take the name as a session, even if it looks like the id of a call
    #[arg(long)]
    pub(crate) session: bool,
    /// Reason, put on the ledger for ever: name no person
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

const PRUNE_HELP: &str = "\
Records of calls that ended longer ago, session events and decisions of that age are erased, of all
tenants. The ledger stays. A server does the same by itself if `retention.keep_for` is set.

Examples:
  ringfence prune --older-than 90d --dry-run
  ringfence prune --older-than 90d";

#[derive(Debug, Args)]
#[command(after_help = PRUNE_HELP)]
pub(crate) struct PruneArgs {
    /// Age of the records, such as 90d or 12h [default: the setting `retention.keep_for`]
    #[arg(long, value_name = "TIME")]
    pub(crate) older_than: Option<String>,
    /// Count the records, and erase nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

const REPLAY_HELP: &str = "\
The call is made again, through policy and on record like any other, with the recorded arguments and
exactly the recorded tool; the digests of the results on both receipts are compared.

Exit codes: 0 equal; 1 different; 2 the call cannot be repeated, or an error of ringfence.";

#[derive(Debug, Args)]
#[command(after_help = REPLAY_HELP)]
pub(crate) struct ReplayArgs {
    /// Id of the call, or its last characters
    #[arg(value_name = "CALL")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Only this kind: call, decision, approval, resolution, tool, key, secret, checkpoint-key,
    /// maintenance or erasure
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<String>,
    /// Only entries about this tool
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Only entries about this call, by its id or the last characters of it
    #[arg(long, value_name = "ID")]
    pub(crate) call: Option<String>,
    /// Only entries about calls of this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Only entries on behalf of this persona
    #[arg(long, value_name = "ID")]
    pub(crate) persona: Option<String>,
    /// Only entries since then: an instant, or how long ago, such as 7d
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only entries before then
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    /// Print the newest checkpoint, which commits to all entries; keep it elsewhere
    Checkpoint {
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Verify that the ledger of a server continues a checkpoint that you kept
    Consistency {
        /// File with the checkpoint
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
    /// Rotate the signing key, with or without a running server
    Rotate {
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Start a new ledger under a new key after the old one was lost or erased
    ///
    /// Only while no server runs, and only if the ledger has no entries. The database, the key and
    /// everything else of the old log are moved to a folder `before-…` in the data directory.
    BeginAnew(MaintenanceArgs),
    /// Accept a database that is older than the newest checkpoint, or of another history
    ///
    /// Only while no server runs. Recorded on the ledger. Revocations and uses since the older
    /// database was made are lost: revoke again first.
    AcceptRollback(MaintenanceArgs),
    /// Restore rows of keys and approvals from the ledger
    ///
    /// Only while no server runs. Recorded on the ledger. A key whose secret was changed or lost
    /// stays as a revoked one.
    Repair(MaintenanceArgs),
}

/// Data directory and output format.
#[derive(Debug, Args)]
pub(crate) struct MaintenanceArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// Settings file [default: $RINGFENCE_CONFIG, or ringfence.toml in the data directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
