//! Built-in tools: one file and one row of [`BUILTINS`] each.
//!
//! Tools that only read their arguments run inline: there is nothing to confine. Code runs in a
//! sandbox like any skill.

mod approval_request;
mod artifact_read;
mod artifact_search;
mod artifact_write;
mod canvas_append;
mod code_execute;
mod diagram_render;
mod echo;
mod embed_text;
mod file_read;
mod http_fetch;
mod llm_generate;
mod packages_install;
mod sandbox;
mod state;
mod timestamp;
mod tool_discover;
mod tool_search;

use std::{collections::BTreeMap, pin::Pin, time::Duration};

use async_trait::async_trait;
use ringfence_policy::{Action, Permit};
use ringfence_registry::{Entry, Violation};
use ringfence_sandbox::session::SessionId;
use ringfence_types::{
    Bytes, Call, CallError, Digest, ErrorCode, Json, Limits, Origin, Produced, SecretName,
    TenantId, Timestamp, Tool, ToolName,
};
use serde_json::{Value, json};

pub use self::canvas_append::CANVAS_BYTES;
use super::{
    Job, Runner,
    work::{Started, ended, failure, without_program},
};
use crate::{
    engine::Inner,
    given::Takes,
    use_cases::{DISCOVERY_TOOL, DiscoverySettings},
    validate,
};

/// One built-in tool.
struct Builtin {
    name: &'static str,
    description: &'static str,
    flags: &'static [&'static str],
    /// Schema of its arguments.
    input: fn() -> Value,
    /// Schema of its result.
    output: fn() -> Value,
    /// Established error messages about missing or invalid arguments, by argument.
    argument_errors: &'static [(&'static str, &'static str)],
    /// The sandbox that it uses.
    sandbox: UsedSandbox,
    /// Whether a call of it takes one of the places for running calls.
    queued: bool,
    /// Whether the result depends on the arguments alone and nothing is changed. Code, the clock
    /// and sessions do not qualify.
    repeatable: bool,
    /// Action that policy is asked about.
    action: fn() -> Action,
    start: fn(Permit, Job<'_>) -> Starting<'_>,
}

/// The sandbox that a tool uses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UsedSandbox {
    None,
    /// A sandbox made for the call.
    New,
    /// An existing session sandbox.
    Kept,
}

/// The future of a start.
type Starting<'a> = Pin<Box<dyn Future<Output = Started> + Send + 'a>>;

/// All built-in tools.
const BUILTINS: &[Builtin] = &[
    echo::TOOL,
    timestamp::TOOL,
    code_execute::TOOL,
    file_read::TOOL,
    http_fetch::TOOL,
    canvas_append::TOOL,
    embed_text::TOOL,
    llm_generate::TOOL,
    artifact_write::TOOL,
    approval_request::TOOL,
    artifact_read::TOOL,
    artifact_search::TOOL,
    diagram_render::TOOL,
    packages_install::TOOL,
    tool_search::TOOL,
    tool_discover::TOOL,
    state::GET,
    state::SET,
    sandbox::create::TOOL,
    sandbox::fork::TOOL,
    sandbox::exec::TOOL,
    sandbox::interpreter::TOOL,
    sandbox::execute::TOOL,
    sandbox::restart::TOOL,
    sandbox::files::TOOL,
];

fn find(name: &ToolName) -> Option<&'static Builtin> {
    BUILTINS.iter().find(|builtin| builtin.name == name.as_str())
}

/// Whether the result of a built-in depends on its arguments alone and nothing is changed.
pub(crate) fn is_repeatable(name: &ToolName) -> bool {
    find(name).is_some_and(|builtin| builtin.repeatable)
}

/// Whether calls of a built-in run in a session sandbox, beside the queue.
pub(crate) fn is_of_session(name: &ToolName) -> bool {
    find(name).is_some_and(|builtin| !builtin.queued)
}

/// Session sandbox that a call of a built-in is about.
pub(crate) fn session_of(call: &Call) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct About {
        sandbox: String,
    }
    let about: Option<About> = is_of_session(&call.asked.tool.name)
        .then(|| serde_json::from_str(call.args().as_str()).ok())
        .flatten();
    about.map(|about| about.sandbox)
}

/// Runner of the built-in tools.
#[derive(Debug)]
pub(super) struct Builtins;

#[async_trait]
impl Runner for Builtins {
    async fn start(&self, permit: Permit, job: Job<'_>) -> Started {
        match find(&job.entry.tool.name) {
            Some(builtin) => (builtin.start)(permit, job).await,
            None => {
                let message = format!("built-in tool `{}` not found", job.entry.tool.name);
                ended(failure(ErrorCode::UnknownBuiltin, message, job.started_at))
            }
        }
    }

    fn action(&self, entry: &Entry) -> Action {
        find(&entry.tool.name).map_or(Action::ToolExecute, |builtin| (builtin.action)())
    }

    fn needs_sandbox(&self, entry: &Entry) -> bool {
        find(&entry.tool.name).is_some_and(|builtin| builtin.sandbox != UsedSandbox::None)
    }

    fn makes_sandbox(&self, entry: &Entry) -> bool {
        find(&entry.tool.name).is_some_and(|builtin| builtin.sandbox == UsedSandbox::New)
    }

    fn takes_place(&self, entry: &Entry) -> bool {
        find(&entry.tool.name).is_none_or(|builtin| builtin.queued)
    }

    /// Session sandboxes end with their process, so what ran in one cannot run again; and no client
    /// would know a sandbox that is made again. Their tools are those that take no place.
    fn runs_again(&self, entry: &Entry) -> bool {
        self.takes_place(entry)
    }

    fn takes(&self, entry: &Entry) -> Takes {
        if entry.tool.name.as_str() == code_execute::TOOL.name {
            Takes::All
        } else {
            Takes::Nothing
        }
    }

    fn network(&self, entry: &Entry, args: &Json) -> Vec<String> {
        match find(&entry.tool.name) {
            Some(builtin) if builtin.sandbox == UsedSandbox::New => hosts(args),
            _ => Vec::new(),
        }
    }

    fn secrets(&self, entry: &Entry, args: &Json) -> BTreeMap<String, SecretName> {
        match find(&entry.tool.name) {
            Some(builtin) if builtin.sandbox == UsedSandbox::New => secrets(args),
            Some(builtin) if builtin.name == "http_fetch" => http_fetch::secrets(args),
            _ => BTreeMap::new(),
        }
    }

    fn tools(&self, entry: &Entry, args: &Json) -> Vec<String> {
        match find(&entry.tool.name) {
            Some(builtin) if builtin.sandbox == UsedSandbox::New => tools_of(args),
            _ => Vec::new(),
        }
    }

    fn passes_on(
        &self,
        inner: &Inner,
        tenant: &TenantId,
        entry: &Entry,
        args: &Json,
    ) -> Vec<String> {
        #[derive(serde::Deserialize)]
        struct InSandbox {
            sandbox: SessionId,
        }
        let mut tools = self.tools(entry, args);
        if let Ok(InSandbox { sandbox }) = args.read() {
            tools.extend(inner.granted_tools(tenant, &sandbox));
        }
        tools
    }

    fn image(&self, entry: &Entry, args: &Json) -> Option<String> {
        match find(&entry.tool.name) {
            Some(builtin) if builtin.sandbox == UsedSandbox::New => image(args),
            _ => None,
        }
    }

    fn tokens(&self, entry: &Entry, args: &Json) -> u64 {
        match entry.tool.name.as_str() == llm_generate::TOOL.name {
            true => llm_generate::tokens(args),
            false => 0,
        }
    }

    fn argument_error(&self, entry: &Entry, violations: &[Violation]) -> Option<&'static str> {
        let builtin = find(&entry.tool.name)?;
        let about = |name: &str| {
            let quoted = [format!("\"{name}\""), format!("'{name}'"), format!("`{name}`")];
            violations.iter().any(|violation| {
                let at_it = violation.pointer == format!("/{name}");
                let missing = violation.keyword == "required"
                    && quoted.iter().any(|quoted| violation.message.contains(quoted));
                at_it || missing
            })
        };
        builtin.argument_errors.iter().find(|(name, _)| about(name)).map(|(_, words)| *words)
    }
}

/// The built-in tools, as the registry lists them.
pub fn tools(now: Timestamp) -> Vec<Tool> {
    tools_with(now, &DiscoverySettings::default())
}

/// The built-in tools with these directories of tools: a search that leaves the machine says so in its flags.
pub fn tools_with(now: Timestamp, discovery: &DiscoverySettings) -> Vec<Tool> {
    let flags = |builtin: &Builtin| match builtin.name {
        DISCOVERY_TOOL if discovery.reaches_urls() => &["external_call"],
        _ => builtin.flags,
    };
    BUILTINS.iter().map(|builtin| tool(builtin, flags(builtin), now)).collect()
}

fn tool(builtin: &Builtin, flags: &[&str], now: Timestamp) -> Tool {
    let version = env!("CARGO_PKG_VERSION");
    let json = |value: &Value| Json::of(value).expect("our own schemas are plain JSON");
    let (input, output) = ((builtin.input)(), (builtin.output)());
    // A built-in changes with the binary, so the version is part of its digest.
    let whole = json!({
        "name": builtin.name, "version": version, "flags": flags,
        "input": input, "output": output,
    });
    Tool {
        name: builtin.name.parse().expect("our own names are valid"),
        version: version.to_owned(),
        description: builtin.description.to_owned(),
        origin: Origin::Builtin,
        digest: Digest::of_json(&json(&whole)),
        input_schema: json(&input),
        output_schema: json(&output),
        safety_flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
        requires_approval: builtin.name == approval_request::TOOL.name,
        tags: vec!["builtin".to_owned()],
        network: Vec::new(),
        env: BTreeMap::new(),
        secrets: BTreeMap::new(),
        outputs: (builtin.name == code_execute::TOOL.name)
            .then(|| "**".to_owned())
            .into_iter()
            .collect(),
        tools: Vec::new(),
        requirements: Vec::new(),
        image: None,
        limits: Limits {
            wall: match builtin.name == llm_generate::TOOL.name {
                true => llm_generate::WALL,
                false => Duration::from_secs(60),
            },
            memory: Bytes::mib(512),
            ..Limits::default()
        },
        created_at: now,
    }
}

/// Result of an inline tool.
type InlineResult = Result<Value, CallError>;

impl Job<'_> {
    /// The end of a tool that ran inline.
    fn inline(&self, given: InlineResult) -> Started {
        ended(without_program(produced(self.entry, given), self.started_at, self.took()))
    }
}

fn produced(entry: &Entry, given: InlineResult) -> Produced {
    let too_deep = || error(ErrorCode::OutputInvalid, &"the result is nested too deep");
    match given.and_then(|value| Json::from_value(&value).ok_or_else(too_deep)) {
        Ok(result) => validate::output(entry, result),
        Err(error) => Produced::Error(error),
    }
}

fn error(code: ErrorCode, message: &dyn std::fmt::Display) -> CallError {
    CallError { code, message: message.to_string(), details: None }
}

fn text<'a>(args: &'a Value, name: &str) -> &'a str {
    args.get(name).and_then(Value::as_str).unwrap_or("")
}

/// The schema of an object with these properties and no others.
fn object(required: &[&str], properties: Value) -> Value {
    json!({
        "type": "object", "properties": properties, "required": required,
        "additionalProperties": false,
    })
}

/// The argument `hosts`, which the schema has checked.
fn hosts(args: &Json) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Asked {
        #[serde(default)]
        hosts: Vec<String>,
    }
    args.read::<Asked>().map(|asked| asked.hosts).unwrap_or_default()
}

/// Schema of the argument `hosts`.
fn hosts_schema() -> Value {
    json!({
        "type": "array", "maxItems": 64, "uniqueItems": true,
        "items": {"type": "string", "minLength": 1, "maxLength": 255},
        "description": "Hosts that it may reach by HTTP: [METHOD[,METHOD] ]host[:port][/path]",
    })
}

/// Tools that the arguments ask for.
fn tools_of(args: &Json) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Asked {
        #[serde(default)]
        tools: Vec<String>,
    }
    args.read::<Asked>().map(|asked| asked.tools).unwrap_or_default()
}

/// Schema of the argument `tools`.
fn tools_schema() -> Value {
    json!({
        "type": "array", "maxItems": 64, "uniqueItems": true,
        "items": {"type": "string", "pattern": TOOL_PATTERN},
        "description": "Tools that its programs may call with the SDK (`import ringfence`): names, or `*` \
                        for all. Each call is decided and recorded as any other",
    })
}

/// Pattern of a name in the argument `tools`.
const TOOL_PATTERN: &str = r"^(\*|[A-Za-z0-9_.-]{1,128})$";

/// Secrets that the arguments ask for, by variable.
fn secrets(args: &Json) -> BTreeMap<String, SecretName> {
    #[derive(serde::Deserialize)]
    struct Asked {
        #[serde(default)]
        secrets: BTreeMap<String, SecretName>,
    }
    args.read::<Asked>().map(|asked| asked.secrets).unwrap_or_default()
}

/// Image that the arguments ask for.
fn image(args: &Json) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Asked {
        image: Option<String>,
    }
    args.read::<Asked>().ok().and_then(|asked| asked.image)
}

/// Schema of the argument `image`.
fn image_schema() -> Value {
    json!({
        "type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,63}$",
        "description": "Imported image whose files it has, instead of the host's",
    })
}

/// Pattern of the name of a secret.
const SECRET_NAME: &str = "^[A-Za-z0-9_.-]{1,64}$";

/// Schema of the argument `secrets`.
fn secrets_schema() -> Value {
    json!({
        "type": "object", "maxProperties": 32,
        "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]{0,99}$"},
        "additionalProperties": {"type": "string", "pattern": SECRET_NAME},
        "description": "Secrets to add to its requests, by the variable that has a placeholder",
    })
}

fn message() -> Value {
    object(&["message"], json!({"message": {"type": "string"}}))
}
