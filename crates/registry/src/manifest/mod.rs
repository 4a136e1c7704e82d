//! Manifests of tools, in both formats of Slovo and in YAML or JSON, as one definition.
//!
//! Format (a) has `parameters_schema`, `api_requirements` and flat `permissions`; format (b) has `inputs`,
//! `outputs` and nested `permissions`. Keys of both may be mixed; an unknown key is a problem.

mod fields;
mod http;
mod permissions;

use std::collections::BTreeMap;

use ringfence_types::{Bytes, Cpus, Json, Limits, Origin, ToolName, ToolPermissions};
use serde_json::{Map, Value, json};

use self::{fields::Fields, http::Api, permissions::Wishes};
use crate::{
    definition::{Definition, Recipe},
    document,
    entry::Command,
    skill::examples,
    text::message,
    version::Version,
};

/// Size limit of a manifest.
const MAX_BYTES: usize = 512 << 10;

/// Examples of one manifest.
const MAX_EXAMPLES: usize = 20;

/// Problems reported for one manifest.
const MAX_PROBLEMS: usize = 50;

/// A manifest that can be used.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The tool.
    pub definition: Definition,
    /// Parts that have no effect here, with the reason.
    pub notes: Vec<String>,
}

impl Manifest {
    /// Reads a manifest, or names every problem with its path.
    pub fn read(bytes: &[u8]) -> Result<Self, Vec<String>> {
        let value = document::read(bytes, &document::Bounds { bytes: MAX_BYTES, values: 50_000 })
            .map_err(|problem| vec![problem])?;
        let Value::Object(map) = value else {
            return Err(vec!["the manifest must be a mapping".to_owned()]);
        };
        let mut fields = Fields::new("", map);
        let (read, notes) = manifest(&mut fields);
        let mut problems = fields.finish();
        match read {
            Some(definition) if problems.is_empty() => {
                problems = definition.problems();
                if problems.is_empty() {
                    return Ok(Self { definition, notes });
                }
            }
            _ => {}
        }
        problems.truncate(MAX_PROBLEMS);
        Err(problems.iter().map(|problem| message(problem)).collect())
    }
}

fn manifest(fields: &mut Fields) -> (Option<Definition>, Vec<String>) {
    let mut notes = Vec::new();
    for ignored in ["author", "license", "homepage", "icon"] {
        fields.ignore(ignored);
    }
    let name = fields.required_text("name");
    let name = name.and_then(|text| fields.parsed::<ToolName>("name", &text));
    let version = fields.required_text("version");
    let version = version.filter(|text| fields.parsed::<Version>("version", text).is_some());
    let description = fields.required_text("description");
    let capabilities = capabilities(fields);
    let wishes = permissions::read(fields);
    let secrets = fields.texts("secrets");
    let tools = fields.texts("tools");
    let flags = fields.texts("safety_flags");
    let requires_approval = fields.truth("requires_approval").unwrap_or(false);
    let api = http::requirements(fields);
    let execution = execution(fields);
    let input = input(fields, &capabilities);
    let output = output(fields);
    let examples = match examples::list(fields.take("examples"), MAX_EXAMPLES) {
        Ok(examples) => examples,
        Err(problems) => {
            problems.iter().for_each(|problem| fields.problem("examples", problem));
            Vec::new()
        }
    };
    if fields.has("openapi_spec") && fields.take("openapi_spec").is_some_and(|spec| !spec.is_null())
    {
        let words = "import the document by itself: `ringfence tool openapi FILE`";
        fields.problem("openapi_spec", words);
    }
    // The secret of its API is named after the tool.
    let secret = name.as_ref().map_or("", ToolName::as_str);
    let recipe = match (execution.as_ref().map(|execution| execution.kind.as_str()), &api) {
        (None | Some("http"), Some(api)) => {
            http::recipe(fields, api, &capabilities, &input, secret)
        }
        (kind, _) => program(fields, kind, execution.as_ref()),
    };
    let (Some(name), Some(version), Some(description), Some(recipe), Some(wishes)) =
        (name, version, description, recipe, wishes)
    else {
        return (None, notes);
    };
    let hosts = hosts(fields, &wishes, api.as_ref());
    let timeout = execution.as_ref().map_or(DEFAULT_TIMEOUT_SECS, |execution| execution.timeout);
    let limits = Limits {
        wall: std::time::Duration::from_secs(timeout),
        cpus: Cpus(wishes.cpu_percent * 10),
        memory: Bytes::mib(wishes.memory_mb),
        disk: Bytes::mib(wishes.storage_mb.max(1)),
        ..Limits::default()
    };
    let mut secrets = secrets;
    secrets.extend(api.as_ref().and_then(|api| api.secret(name.as_str())));
    let asks = ToolPermissions {
        hosts,
        storage_bytes: storage(&wishes, &recipe, &mut notes),
        secrets,
        tools,
        cpu_millis: Some(limits.cpus.0),
        memory_bytes: Some(limits.memory.0),
        processes: None,
        wall_ms: Some(timeout * 1_000),
    };
    let tags = capabilities.iter().map(|capability| capability.name.clone());
    let definition = Definition {
        name,
        version,
        description: description.trim().to_owned(),
        origin: Origin::Manifest,
        input_schema: Json::plain(&input),
        output_schema: Json::plain(&output),
        safety_flags: safety_flags(flags, &recipe, &asks),
        requires_approval,
        tags: tags.take(64).collect(),
        limits,
        asks,
        examples,
        runs: recipe,
    };
    (Some(definition), notes)
}

/// Something that a tool can do.
#[derive(Debug, Clone)]
struct Capability {
    name: String,
    endpoint: Option<String>,
    method: Option<String>,
    parameters: Option<Value>,
}

/// Capabilities: names, or mappings with a name.
fn capabilities(fields: &mut Fields) -> Vec<Capability> {
    let mut found = Vec::new();
    for (index, item) in fields.list("capabilities").into_iter().enumerate() {
        let at = format!("capabilities[{index}]");
        match item {
            Value::String(name) => {
                found.push(Capability { name, endpoint: None, method: None, parameters: None })
            }
            Value::Object(map) => {
                let mut inner = fields.within(&at, map);
                inner.ignore("description");
                let name = inner.required_text("name");
                let endpoint = inner.text("endpoint");
                let method = inner.text("method").map(|method| method.to_ascii_uppercase());
                let parameters = inner.object("parameters").map(Value::Object);
                fields.merge(inner);
                if let Some(name) = name {
                    found.push(Capability { name, endpoint, method, parameters });
                }
            }
            _ => fields.problem(&at, "must be text or a mapping"),
        }
    }
    found
}

/// Default of `execution.timeout`.
const DEFAULT_TIMEOUT_SECS: u64 = 30;

/// Way in which a manifest is to be run.
#[derive(Debug)]
struct Execution {
    kind: String,
    entrypoint: Vec<String>,
    image: Option<String>,
    files: BTreeMap<String, String>,
    timeout: u64,
}

fn execution(fields: &mut Fields) -> Option<Execution> {
    let map = fields.object("execution")?;
    let mut inner = fields.within("execution", map);
    let image = inner.text("image");
    let module = inner.text("module");
    let default = match (&image, &module) {
        (_, Some(_)) => "wasm",
        (Some(_), None) => "docker",
        (None, None) => "native",
    };
    let kind = inner.text("type").unwrap_or_else(|| default.to_owned());
    let entrypoint = match inner.take("entrypoint") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) => text.split_whitespace().map(str::to_owned).collect(),
        Some(Value::Array(words)) => {
            let texts: Option<Vec<_>> =
                words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
            texts.unwrap_or_else(|| {
                inner.problem("entrypoint", "must be text or a list of texts");
                Vec::new()
            })
        }
        Some(_) => {
            inner.problem("entrypoint", "must be text or a list of texts");
            Vec::new()
        }
    };
    let timeout = inner.whole("timeout", 1..=3_600).unwrap_or(DEFAULT_TIMEOUT_SECS);
    let mut files = BTreeMap::new();
    for (path, content) in inner.object("files").into_iter().flatten() {
        match content {
            Value::String(text) => drop(files.insert(path, text)),
            _ => inner.problem(&format!("files.{path}"), "must be text"),
        }
    }
    fields.merge(inner);
    Some(Execution { kind, entrypoint, image, files, timeout })
}

fn program(
    fields: &mut Fields,
    kind: Option<&str>,
    execution: Option<&Execution>,
) -> Option<Recipe> {
    match kind {
        Some("native") => {
            let execution = execution?;
            if execution.entrypoint.is_empty() {
                fields.problem("execution.entrypoint", "is missing: program and arguments");
                return None;
            }
            let (argv, files) = (execution.entrypoint.clone(), execution.files.clone());
            return Some(Recipe::Command(Command { argv, files, image: None }));
        }
        Some("http") => {
            fields.problem("api_requirements", "is missing: `base_url` of the API");
        }
        Some("docker") => {
            let execution = execution?;
            let Some(image) = execution.image.clone() else {
                fields.problem("execution.image", "is missing: name of an image");
                return None;
            };
            let (argv, files) = (execution.entrypoint.clone(), execution.files.clone());
            return Some(Recipe::Command(Command { argv, files, image: Some(image) }));
        }
        Some(kind @ "wasm") => {
            let words = format!("`{kind}` is not supported; `native` runs a program of the host");
            fields.problem("execution.type", &words);
        }
        Some(_) => fields.problem("execution.type", "must be native, docker or http"),
        None => {
            let words =
                "is missing, and there is no `api_requirements.base_url`: nothing could run";
            fields.problem("execution", words);
        }
    }
    None
}

/// Schema of the arguments: as given, of the inputs of format (b), or of the only capability.
fn input(fields: &mut Fields, capabilities: &[Capability]) -> Value {
    if let Some(schema) = fields.object("parameters_schema") {
        fields.ignore("inputs");
        return Value::Object(schema);
    }
    if let Some(inputs) = fields.object("inputs") {
        return described(fields, "inputs", inputs);
    }
    let with: Vec<_> = capabilities.iter().filter_map(|one| one.parameters.as_ref()).collect();
    match with.as_slice() {
        [] => json!({"type": "object"}),
        [one] => (*one).clone(),
        _ => {
            let words = "is missing: several capabilities have parameters of their own";
            fields.problem("parameters_schema", words);
            json!({"type": "object"})
        }
    }
}

/// Schema of the result.
fn output(fields: &mut Fields) -> Value {
    if let Some(schema) = fields.object("output_schema") {
        return Value::Object(schema);
    }
    match fields.object("outputs") {
        Some(outputs) => described(fields, "outputs", outputs),
        None => json!({}),
    }
}

/// Schema of values by name: `{name: {type, description, required}}`.
fn described(fields: &mut Fields, at: &str, map: Map<String, Value>) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (name, about) in map {
        let Value::Object(mut about) = about else {
            fields.problem(&format!("{at}.{name}"), "must be a mapping");
            continue;
        };
        match about.remove("required") {
            None | Some(Value::Bool(false)) => {}
            Some(Value::Bool(true)) => required.push(json!(name)),
            Some(_) => fields.problem(&format!("{at}.{name}.required"), "must be true or false"),
        }
        properties.insert(name, Value::Object(about));
    }
    json!({"type": "object", "properties": properties, "required": required})
}

/// Bytes that the tool asks to keep between calls. Requests to an API keep nothing here.
fn storage(wishes: &Wishes, recipe: &Recipe, notes: &mut Vec<String>) -> u64 {
    match recipe {
        _ if !wishes.persistent => 0,
        Recipe::Command(_) => Bytes::mib(wishes.storage_mb).0,
        _ => {
            notes.push("permissions.storage.persistent: only programs keep files".to_owned());
            0
        }
    }
}

/// Hosts that the tool asks for: those that are named, and that of its API.
fn hosts(fields: &mut Fields, wishes: &Wishes, api: Option<&Api>) -> Vec<String> {
    let mut hosts = wishes.hosts.clone();
    if let Some(host) = api.map(Api::host)
        && !hosts.contains(&host)
    {
        hosts.push(host);
    }
    if wishes.internet && hosts.is_empty() {
        let words = "asks for the whole internet: name the hosts in `permissions.allowed_hosts`";
        fields.problem("permissions", words);
    }
    if !wishes.internet && !hosts.is_empty() {
        fields.problem("permissions", "hosts are named, and internet access is not asked for");
    }
    hosts
}

/// Flags as declared, and those that follow from what the tool does: never weaker.
fn safety_flags(declared: Vec<String>, recipe: &Recipe, asks: &ToolPermissions) -> Vec<String> {
    let mut flags = declared;
    let mut add = |flag: &str| {
        if !flags.iter().any(|known| known == flag) {
            flags.push(flag.to_owned());
        }
    };
    match recipe {
        Recipe::Http(tool) => {
            add("external_call");
            if tool.operations.iter().any(|operation| !operation.is_read_only()) {
                add("side_effect");
            }
        }
        _ if !asks.hosts.is_empty() => {
            add("network_access");
            add("side_effect");
        }
        _ => {}
    }
    if flags.len() > 1 {
        flags.retain(|flag| flag != "none");
    }
    if flags.is_empty() {
        flags.push("none".to_owned());
    }
    flags
}

#[cfg(test)]
mod tests;
