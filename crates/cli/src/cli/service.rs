//! Words of the server and of the commands that speak to one.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{DataArgs, Wall};

const SERVE_EXAMPLES: &str = "\
Examples:
  ringfence serve
  ringfence serve --data ./state --listen 127.0.0.1:0 --skills ./skills
  ringfence config show

There is no TLS in it: put a proxy that has it in front, or give --insecure-allow-remote to listen
beyond loopback in the clear. SIGTERM and Ctrl-C end it in good order, a second one (more than a
second later) at once.";

#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
    /// Print one object with the address when it listens, instead of words
    #[arg(long)]
    pub(crate) json: bool,
}

/// The settings that have a flag; all others are in the environment or the file.
#[derive(Debug, Default, Args)]
pub(crate) struct SettingsArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// Address and port; port 0 takes a free one [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Folder of skill folders, beside the skills that are part of the binary
    #[arg(long, value_name = "DIR")]
    pub(crate) skills: Vec<PathBuf>,
    /// Folder of Rego rules instead of the built-in ones
    #[arg(long, value_name = "DIR")]
    pub(crate) policy: Option<PathBuf>,
    /// A level, or directives such as info,ringfence_engine=debug [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,
    /// text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
    /// File with settings [default: $RINGFENCE_CONFIG, or ringfence.toml in the data directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Listen beyond loopback although nothing is encrypted
    #[arg(long)]
    pub(crate) insecure_allow_remote: bool,
    /// Run sandboxes without this wall if the host lacks it; /readyz and receipts name it
    #[arg(long, value_enum, value_name = "WALL")]
    pub(crate) allow_missing: Vec<Wall>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print every setting, its value and where that came from
    Show {
        /// Print one object per line
        #[arg(long)]
        json: bool,
        /// Show what a running server uses; needs an admin key of the operator
        #[arg(long)]
        server: bool,
        /// Address of that server [default: $RINGFENCE_URL, or the one that runs on the data directory]
        #[arg(long, value_name = "URL", requires = "server")]
        url: Option<String>,
        #[command(flatten)]
        settings: Box<SettingsArgs>,
    },
}

/// Which server, and how to print.
#[derive(Debug, Default, Args)]
pub(crate) struct ClientArgs {
    /// The server [default: $RINGFENCE_URL, or the one that runs on the data directory]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// Print one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

const CALL_EXAMPLES: &str = "\
Examples:
  ringfence call echo text=hello
  ringfence call text_summarize text=\"$(cat notes.txt)\" max_sentences=2
  ringfence call code_execute language=python code='print(6*7)'
  ringfence call extract_entities text='Ask Ada Lovelace' entity_types:='[\"PERSON\"]'
  ringfence call echo - < arguments.json

The result goes to standard output; what the program prints while it runs goes to standard error.
Ctrl-C cancels the call.

Exit codes: 0 it gave a result; 1 the tool failed; 2 we failed or were misused; 3 policy denied it;
4 it is held for approval; 124 its time was over; 130 after Ctrl-C.";

#[derive(Debug, Args)]
#[command(after_help = CALL_EXAMPLES)]
pub(crate) struct CallArgs {
    /// The tool
    pub(crate) tool: String,
    /// Arguments: `name=value` typed by the tool's schema, `name:=JSON` as it is; `-` reads all of
    /// them as one JSON object from standard input
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) values: Vec<String>,
    /// All arguments as one JSON object
    #[arg(long, value_name = "JSON", conflicts_with = "values")]
    pub(crate) args: Option<String>,
    /// Which version of the tool [default: the newest]
    #[arg(long, value_name = "VERSION")]
    pub(crate) tool_version: Option<String>,
    /// Print the call's name and do not wait for its end
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// What the call belongs to
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// On whose behalf it is made
    #[arg(long, value_name = "ID")]
    pub(crate) persona: Option<String>,
    /// Equal keys mean the same request, done once
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Run it even if the result of an equal call is remembered
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Do not show what the program prints while it runs
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    /// Only this tool, with its schemas and limits
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Id of the call, or its last characters
    #[arg(value_name = "CALL")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

const WAIT_HELP: &str = "\
The result is printed as `call` prints it. A held call is not waited for: a person must decide first.

Exit codes: as those of `call`; 124 also if --timeout is over. The call goes on in that case.";

#[derive(Debug, Args)]
#[command(after_help = WAIT_HELP)]
pub(crate) struct WaitArgs {
    /// Id of the call, or its last characters
    #[arg(value_name = "CALL")]
    pub(crate) id: String,
    /// How long to wait, such as 30s or 5m [default: until it ends]
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CallsArgs {
    /// Only in this state, such as `held` or `running`
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<String>,
    /// Only of this tool
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Only of this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// At most so many, the newest
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The call
    #[arg(value_name = "CALL")]
    pub(crate) id: String,
    /// Go on until the call ends
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Its standard error instead of its standard output
    #[arg(long)]
    pub(crate) stderr: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// The call
    #[arg(value_name = "CALL")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct HoldsArgs {
    /// Only this call, with exactly what would happen
    #[arg(value_name = "CALL")]
    pub(crate) id: Option<String>,
    /// Have policy asked again about it
    #[arg(long, requires = "id")]
    pub(crate) reevaluate: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

const APPROVE_EXAMPLES: &str = "\
Examples:
  ringfence approve 019a8b7c-1234-7abc-8def-0123456789ab --reason 'asked Ann'
  ringfence approve 019a8b7c-1234-7abc-8def-0123456789ab --edit to=ann@example.com
  ringfence approve 019a8b7c-1234-7abc-8def-0123456789ab --scope session --for 2h --uses 20
  ringfence approve 019a8b7c-1234-7abc-8def-0123456789ab --scope rule --for 8h --uses 50 \\
      --where '/to suffix @example.com'

What would happen is shown first. An approval is for this tool as it is, for calls by the key that
made this one, and while the policy is what it is: when any of it changes, it does not apply.
A condition is PATH TEST VALUE: a JSON Pointer into the arguments; =, in, <=, >=, prefix or suffix.";

#[derive(Debug, Args)]
#[command(after_help = APPROVE_EXAMPLES)]
pub(crate) struct ApproveArgs {
    /// The held call
    #[arg(value_name = "CALL")]
    pub(crate) id: String,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Run it with another argument: `name=value`, typed as in `call`, or `name:=JSON`; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) edit: Vec<String>,
    /// How far it reaches: once, session or rule [default: once]
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Option<String>,
    /// Instead of exactly the arguments shown, all that fulfil this; repeatable
    #[arg(long = "where", value_name = "CONDITION")]
    pub(crate) conditions: Vec<String>,
    /// Instead of exactly the arguments shown, any at all
    #[arg(long, conflicts_with = "conditions")]
    pub(crate) any_arguments: bool,
    /// How long it lasts, such as 2h [default: 1h, or 8h for a session]
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) lasts: Option<String>,
    /// For so many calls [default: 1, or 100 for a session]
    #[arg(long, value_name = "COUNT")]
    pub(crate) uses: Option<u32>,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DenyArgs {
    /// The held call
    #[arg(value_name = "CALL")]
    pub(crate) id: String,
    /// Why; whoever made the call sees it
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Nobody needs it any more: no judgement, it counts as cancelled
    #[arg(long)]
    pub(crate) discard: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ApprovalsArgs {
    /// Also those that are over or revoked
    #[arg(long)]
    pub(crate) all: bool,
    /// Take this one back instead of listing
    #[arg(long, value_name = "APPROVAL")]
    pub(crate) revoke: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// Begin after this event; `0-0` is the beginning [default: what happens from now on]
    #[arg(long, value_name = "EVENT")]
    pub(crate) after: Option<String>,
    /// End after so many
    #[arg(long, value_name = "COUNT")]
    pub(crate) limit: Option<u64>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key and print its secret, which is shown this once
    Create {
        /// What people call it
        label: String,
        /// What it may do: call, read, approve or admin
        #[arg(long, value_name = "SCOPE", value_delimiter = ',', default_values_t = ["call".to_owned(), "read".to_owned()])]
        scope: Vec<String>,
        /// Whose it is [default: your own tenant]
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// The only persona it may act for
        #[arg(long, value_name = "ID")]
        persona: Option<String>,
        /// Whose hands it will be in, such as ann@ours.example; keys of one person count as one
        #[arg(long, value_name = "NAME")]
        person: Option<String>,
        /// When it ends by itself, such as 90d or 2027-01-01T00:00:00Z
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// List keys, never their secrets
    List {
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Revoke a key, at once and for good
    Revoke {
        /// The key's id, as `list` shows it
        id: String,
        #[command(flatten)]
        client: ClientArgs,
    },
}
