//! Arguments of `serve` and of the commands that talk to a server.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{DataArgs, Wall};

const SERVE_EXAMPLES: &str = "\
Examples:
  ringfence serve
  ringfence serve --data ./state --listen 127.0.0.1:0 --skills ./skills
  ringfence serve --listen 0.0.0.0:7420 --tls-cert server.crt --tls-key server.key
  ringfence config show

To listen beyond loopback, give it a certificate; --insecure-allow-remote goes without encryption. New
certificates are used as soon as the files change. SIGTERM or Ctrl-C stops it after running calls; a second one, more
than a second later, stops it at once.";

#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
    /// Print one JSON object when it listens
    #[arg(long)]
    pub(crate) json: bool,
}

const MIGRATE_EXAMPLES: &str = "\
Examples:
  ringfence migrate --store postgres://ringfence@db.internal/ringfence
  RINGFENCE_STORE=postgres://ringfence@db.internal/ringfence ringfence migrate --data ./state

Run it before the first server and after each upgrade; it may run twice, and on two hosts at once. The
first run makes ledger.key and admin.key in the data directory: copy ledger.key to the data directory of
every other server.";

#[derive(Debug, Args)]
#[command(after_help = MIGRATE_EXAMPLES)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Settings that have a flag. All settings can be set in the environment or the file.
#[derive(Debug, Default, Args)]
pub(crate) struct SettingsArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// PostgreSQL database: postgres://USER@HOST/NAME [default: SQLite in the data directory]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Part of the work on a shared database: all, api (accepts calls) or worker (runs them) [default: all]
    #[arg(long, value_name = "ROLE")]
    pub(crate) role: Option<String>,
    /// Address and port to listen on; port 0 takes a free one [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Kafka as the bus of events: kafka://HOST:PORT [default: a queue in the data directory]
    #[arg(long, value_name = "URL")]
    pub(crate) bus: Option<String>,
    /// Redis for rate limits that servers share: redis://HOST:PORT [default: none]
    #[arg(long, value_name = "URL")]
    pub(crate) redis: Option<String>,
    /// Directory of skill folders; repeatable
    #[arg(long, value_name = "DIR")]
    pub(crate) skills: Vec<PathBuf>,
    /// Directory of Rego rules [default: built-in rules]
    #[arg(long, value_name = "DIR")]
    pub(crate) policy: Option<PathBuf>,
    /// Log level, or directives such as info,ringfence_engine=debug [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,
    /// Log format: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
    /// Settings file [default: $RINGFENCE_CONFIG, or ringfence.toml in the data directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Listen beyond loopback without encryption
    #[arg(long)]
    pub(crate) insecure_allow_remote: bool,
    /// Certificate of the server, then those of its issuers (PEM): turns TLS on
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Run sandboxes without this wall if the host lacks it; /readyz and receipts name it
    #[arg(long, value_enum, value_name = "WALL")]
    pub(crate) allow_missing: Vec<Wall>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print every setting, its value and its source
    Show {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
        /// Show what a running server uses; needs an admin key of the operator
        #[arg(long)]
        server: bool,
        /// URL of that server [default: $RINGFENCE_URL, or the server that runs on the data directory]
        #[arg(long, value_name = "URL", requires = "server")]
        url: Option<String>,
        #[command(flatten)]
        settings: Box<SettingsArgs>,
    },
}

/// Server and output format.
#[derive(Debug, Default, Args)]
pub(crate) struct ClientArgs {
    /// URL of the server [default: $RINGFENCE_URL, or the server that runs on the data directory]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Authorities to believe for a URL with https, as a PEM file [default: $RINGFENCE_CA, or those of
    /// the system]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// Print one JSON object per line
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

The result goes to standard output, output of the program to standard error. Ctrl-C cancels the call.

Exit codes: 0 result; 1 the tool failed; 2 error of ringfence or bad arguments; 3 denied by policy;
4 held for approval; 124 timed out; 130 after Ctrl-C.";

#[derive(Debug, Args)]
#[command(after_help = CALL_EXAMPLES)]
pub(crate) struct CallArgs {
    /// Name of the tool
    pub(crate) tool: String,
    /// Arguments: `name=value`, typed by the schema of the tool, or `name:=JSON`; `-` reads one JSON
    /// object from standard input
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) values: Vec<String>,
    /// All arguments as one JSON object
    #[arg(long, value_name = "JSON", conflicts_with = "values")]
    pub(crate) args: Option<String>,
    /// Version of the tool [default: newest]
    #[arg(long, value_name = "VERSION")]
    pub(crate) tool_version: Option<String>,
    /// Print the id of the call and do not wait
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Session of the call
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Persona on whose behalf the call is made
    #[arg(long, value_name = "ID")]
    pub(crate) persona: Option<String>,
    /// Idempotency key: requests with the same key make one call
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Run the tool even if the result of an equal call is remembered
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Do not show output of the program
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    /// Show this tool, with its schemas and limits
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
    /// Maximum time to wait, such as 30s or 5m [default: until it ends]
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CallsArgs {
    /// Only calls in this state, such as `held` or `running`
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<String>,
    /// Only calls of this tool
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Only calls of this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Only calls that this call made
    #[arg(long, value_name = "CALL")]
    pub(crate) parent: Option<String>,
    /// Number of calls to list, newest first
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

impl CallsArgs {
    /// The newest calls of a tool.
    pub(crate) fn of_tool(name: String, limit: u32, client: ClientArgs) -> Self {
        Self { state: None, tool: Some(name), session: None, parent: None, limit, client }
    }
}

const USAGE_EXAMPLES: &str = "\
Examples:
  ringfence usage
  ringfence usage --from 2026-11-01 --until 2026-12-01 --by key
  ringfence usage --hourly --by tool --key 0192f1c5-…";

#[derive(Debug, Args)]
#[command(after_help = USAGE_EXAMPLES)]
pub(crate) struct UsageArgs {
    /// First day or moment, in UTC [default: six days ago]
    #[arg(long, value_name = "DATE")]
    pub(crate) from: Option<String>,
    /// End, not included [default: the next midnight]
    #[arg(long, value_name = "DATE")]
    pub(crate) until: Option<String>,
    /// A row for each hour instead of each day
    #[arg(long)]
    pub(crate) hourly: bool,
    /// A row for each key or tool; repeatable
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) by: Vec<UsageBy>,
    /// Only calls of this key
    #[arg(long, value_name = "ID")]
    pub(crate) key: Option<String>,
    /// Only calls of this tool
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Another tenant, or `*` for all; needs an admin key of the operator
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ProcessesArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// Subject by which usage is added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum UsageBy {
    Key,
    Tool,
}

impl UsageBy {
    /// Its name in a query.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Tool => "tool",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Id of the call, or its last characters
    #[arg(value_name = "CALL")]
    pub(crate) id: String,
    /// Follow the output until the call ends
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Print standard error instead of standard output
    #[arg(long)]
    pub(crate) stderr: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// Id of the call, or its last characters
    #[arg(value_name = "CALL")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct HoldsArgs {
    /// Show this call, with exactly what would run
    #[arg(value_name = "CALL")]
    pub(crate) id: Option<String>,
    /// Evaluate policy again for this call
    #[arg(long, requires = "id")]
    pub(crate) reevaluate: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

const APPROVE_EXAMPLES: &str = "\
Examples:
  ringfence approve 456789ab --reason 'asked Ann'
  ringfence approve 456789ab --edit to=ann@example.com
  ringfence approve 456789ab --scope session --for 2h --uses 20
  ringfence approve 456789ab --scope rule --for 8h --uses 50 \\
      --where '/to suffix @example.com'

The call is shown first, with exactly what would run. An approval holds for this version of the tool,
for calls by the same key, and under the present policy; if any of these changes, it no longer applies.
A condition is PATH TEST VALUE: a JSON Pointer into the arguments; =, in, <=, >=, prefix or suffix.";

#[derive(Debug, Args)]
#[command(after_help = APPROVE_EXAMPLES)]
pub(crate) struct ApproveArgs {
    /// Id of the held call, or its last characters
    #[arg(value_name = "CALL")]
    pub(crate) id: String,
    /// Reason, for the record
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Change an argument: `name=value`, typed as in `call`, or `name:=JSON`; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) edit: Vec<String>,
    /// Scope: once, session (calls of this session) or rule (calls of this tool) [default: once]
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Option<String>,
    /// Approve all arguments that meet this condition, not only those shown; repeatable
    #[arg(long = "where", value_name = "CONDITION")]
    pub(crate) conditions: Vec<String>,
    /// Approve any arguments
    #[arg(long, conflicts_with = "conditions")]
    pub(crate) any_arguments: bool,
    /// Lifetime of the approval, such as 2h [default: 1h, or 8h for a session]
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) lasts: Option<String>,
    /// Number of calls it is good for [default: 1, or 100 for a session]
    #[arg(long, value_name = "COUNT")]
    pub(crate) uses: Option<u32>,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DenyArgs {
    /// Id of the held call, or its last characters
    #[arg(value_name = "CALL")]
    pub(crate) id: String,
    /// Reason; recorded, and shown to the caller
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Discard the call: it counts as cancelled, not as denied
    #[arg(long)]
    pub(crate) discard: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ApprovalsArgs {
    /// Include approvals that are used up, expired or revoked
    #[arg(long)]
    pub(crate) all: bool,
    /// Revoke this approval, by its id or the last characters of it
    #[arg(long, value_name = "APPROVAL")]
    pub(crate) revoke: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// Start after this event; `0-0` is the beginning [default: only new events]
    #[arg(long, value_name = "EVENT")]
    pub(crate) after: Option<String>,
    /// Stop after this number of events
    #[arg(long, value_name = "COUNT")]
    pub(crate) limit: Option<u64>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

const DEMO_HELP: &str = "\
Every call is a real one, made with keys that are created for it; persona, sessions, names and labels
begin with `demo`. Needs an admin key of the operator. A hostile program reaches its memory limit of
512 MiB for a moment.

Examples:
  ringfence demo
  ringfence demo --over 15m
  ringfence demo --remove";

#[derive(Debug, Args)]
#[command(after_help = DEMO_HELP)]
pub(crate) struct DemoArgs {
    /// Spread the calls over this time [default: as fast as they run]
    #[arg(long, value_name = "TIME", conflicts_with = "remove")]
    pub(crate) over: Option<String>,
    /// Cancel, delete and revoke what demos left; entries of the ledger stay
    #[arg(long)]
    pub(crate) remove: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Check this broker: kafka://HOST:PORT [default: the bus of the settings]
    #[arg(long, value_name = "URL")]
    pub(crate) bus: Option<String>,
    /// Create the topics that the broker lacks
    #[arg(long)]
    pub(crate) create_topics: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DlqCommand {
    /// List topics that have dead letters, or the letters of one
    List {
        /// Name of the topic
        topic: Option<String>,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Publish dead letters again and take them off the list
    Replay {
        /// Name of the topic
        topic: String,
        /// Ids of the letters
        #[arg(required = true)]
        ids: Vec<u64>,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Remove dead letters
    Rm {
        /// Name of the topic
        topic: String,
        /// Ids of the letters
        #[arg(required_unless_present = "all")]
        ids: Vec<u64>,
        /// Remove all letters of the topic
        #[arg(long, conflicts_with = "ids")]
        all: bool,
        #[command(flatten)]
        client: ClientArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Create a key and print its secret; it is not shown again
    Create {
        /// Label of the key
        label: String,
        /// Scopes of the key: call, read, approve or admin; repeatable or separated by commas
        #[arg(long, value_name = "SCOPE", value_delimiter = ',', default_values_t = ["call".to_owned(), "read".to_owned()])]
        scope: Vec<String>,
        /// Tenant of the key [default: your own]
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// The only persona that the key may act for
        #[arg(long, value_name = "ID")]
        persona: Option<String>,
        /// Person who will use it, such as ann@ours.example; keys of one person count as one approver
        #[arg(long, value_name = "NAME")]
        person: Option<String>,
        /// Expiry, such as 90d or 2027-01-01T00:00:00Z [default: never]
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// List keys, without their secrets
    List {
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Revoke a key at once
    Revoke {
        /// Id of the key, or its last characters
        id: String,
        #[command(flatten)]
        client: ClientArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Set a secret; its value is read from standard input, a file or a variable
    Set(SecretSetArgs),
    /// List secrets, without their values
    List {
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Remove a secret; requests stop getting it at once
    Rm {
        /// Name of the secret
        name: String,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Encrypt all secrets with a new key
    Rotate {
        #[command(flatten)]
        client: ClientArgs,
    },
}

const SECRET_EXAMPLES: &str = "\
Examples:
  ringfence secret set openai --tool summarize --host api.openai.com --header authorization < key.txt
  ringfence secret set maps --tool http_fetch --host maps.example.com --query key --from-env MAPS_KEY";

#[derive(Debug, Args)]
#[command(after_help = SECRET_EXAMPLES)]
pub(crate) struct SecretSetArgs {
    /// Name of the secret
    pub(crate) name: String,
    /// Tool whose calls may use it; repeatable
    #[arg(long, value_name = "TOOL", required = true)]
    pub(crate) tool: Vec<String>,
    /// Host that it may be sent to, such as api.example.com or 'POST api.example.com/v1'; repeatable
    #[arg(long, value_name = "HOST", required = true)]
    pub(crate) host: Vec<String>,
    /// Header that carries it
    #[arg(long, value_name = "NAME", required_unless_present = "query", conflicts_with = "query")]
    pub(crate) header: Option<String>,
    /// Value of the header, with {} for the secret [default: 'Bearer {}' for authorization, else '{}']
    #[arg(long, value_name = "TEXT", requires = "header")]
    pub(crate) format: Option<String>,
    /// Parameter of the query that carries it
    #[arg(long, value_name = "NAME")]
    pub(crate) query: Option<String>,
    /// Read the value from this file
    #[arg(long, value_name = "FILE", conflicts_with = "from_env")]
    pub(crate) from_file: Option<PathBuf>,
    /// Read the value from this environment variable
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) from_env: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}
