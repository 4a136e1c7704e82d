//! Manifest of a skill: `skill.yaml`.

use std::collections::BTreeMap;

use ringfence_egress::HostRule;
use ringfence_types::{Limits, SecretName, ToolName, nearest};

use super::{
    limits,
    yaml::{self, Yaml},
};
use crate::{text::shown, version::Version};

/// Declared capabilities, as policy knows them.
pub(crate) const SAFETY_FLAGS: [&str; 6] =
    ["none", "pii_risk", "external_call", "side_effect", "file_system", "network_access"];

/// Known keys.
const KEYS: [&str; 15] = [
    "name",
    "version",
    "description",
    "handler",
    "safety_flags",
    "requires_approval",
    "tags",
    "limits",
    "network",
    "env",
    "secrets",
    "outputs",
    "tools",
    "requirements",
    "image",
];

/// Keys of the Code Executor Service that have no meaning here.
const IGNORED_KEYS: [&str; 7] = [
    "anthropic_compatible",
    "tier1",
    "when_to_use",
    "when_not_to_use",
    "examples",
    "dependencies",
    "inputs_schema",
];

/// Prefix of keys for authors' own use.
const OWN_PREFIX: &str = "x-";

/// Length limit of the description in characters: agents read all of them.
const MAX_DESCRIPTION_CHARS: usize = 4_000;
/// Number of tags, and length limit of one.
const MAX_TAGS: (usize, usize) = (64, 100);

/// Pattern of a requirement, for schemas.
pub const REQUIREMENT: &str = r"^[A-Za-z0-9][A-Za-z0-9 ._\[\],=<>!~*-]{0,199}$";
/// Length limit of the value of an environment variable.
const MAX_VALUE_BYTES: usize = 8 << 10;
/// Variables that the sandbox sets itself: they say how the program reaches the network, or change what
/// its interpreter loads.
const RESERVED_VARIABLES: [&str; 12] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "NODE_OPTIONS",
    "LD_PRELOAD",
    "PYTHONHOME",
    "PATH",
];

/// Valid manifest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Manifest {
    pub(crate) name: ToolName,
    pub(crate) version: Version,
    pub(crate) description: String,
    /// Name of the file with the function, without `.py`.
    pub(crate) module: String,
    pub(crate) function: String,
    pub(crate) safety_flags: Vec<String>,
    pub(crate) requires_approval: bool,
    pub(crate) tags: Vec<String>,
    pub(crate) limits: Limits,
    /// Hosts that every call asks for.
    pub(crate) network: Vec<String>,
    /// Environment variables.
    pub(crate) env: BTreeMap<String, String>,
    /// Secrets that every call asks for, by the variable that has the placeholder.
    pub(crate) secrets: BTreeMap<String, SecretName>,
    /// Patterns of the files that are stored when a call ends.
    pub(crate) outputs: Vec<String>,
    /// Tools that the handler may call; `*` for all.
    pub(crate) tools: Vec<String>,
    /// Python packages that the handler imports.
    pub(crate) requirements: Vec<String>,
    /// Imported image whose files calls have.
    pub(crate) image: Option<String>,
}

impl Manifest {
    pub(crate) fn handler_path(&self) -> String {
        format!("{}.py", self.module)
    }
}

/// Parses a manifest, or returns all problems. An unknown key is a problem: a misspelt `safety_flags`
/// would turn a guard off.
pub(super) fn parse(bytes: &[u8]) -> Result<Manifest, Vec<String>> {
    let problem = |problem: String| vec![format!("skill.yaml: {problem}")];
    let map = match yaml::parse(bytes).map_err(problem)? {
        Yaml::Map(map) => map,
        other => return Err(problem(format!("must be a mapping, found {}", other.kind()))),
    };
    let mut fields = Fields { map, problems: Vec::new() };
    let manifest = manifest(&mut fields);
    match (manifest, fields.problems) {
        (Some(manifest), problems) if problems.is_empty() => Ok(manifest),
        (_, problems) => Err(problems.iter().map(|text| format!("skill.yaml: {text}")).collect()),
    }
}

/// Reads every field before it fails, so that all problems are reported.
fn manifest(fields: &mut Fields) -> Option<Manifest> {
    let name = fields.read("name", |text| text.parse().map_err(|e| format!("{e}")));
    let version = fields.read("version", |text| text.parse().map_err(|e| format!("{e}")));
    let description = fields.read("description", description);
    let handler = fields.read("handler", handler);
    let safety_flags = fields.list("safety_flags", safety_flag);
    let tags = fields.list("tags", tag);
    let requires_approval = fields.truth("requires_approval");
    let limits = fields.limits();
    let network = fields.list("network", host);
    let env = fields.variables("env", env_value);
    let secrets = fields.secrets();
    let outputs = fields.list("outputs", pattern);
    let tools = fields.list("tools", tool);
    let requirements = fields.list("requirements", requirement);
    let image = fields.image();
    if image.as_ref().is_some_and(Option::is_some)
        && requirements.as_ref().is_some_and(|all| !all.is_empty())
    {
        fields.problems.push("image: cannot be combined with requirements".to_owned());
    }
    fields.no_others();
    let (module, function) = handler?;
    Some(Manifest {
        name: name?,
        version: version?,
        description: description?,
        module,
        function,
        safety_flags: safety_flags?,
        requires_approval: requires_approval?,
        tags: tags?,
        limits: limits?,
        network: network?,
        env: env?,
        secrets: secrets?,
        outputs: outputs?,
        tools: tools?,
        requirements: requirements?,
        image: image?,
    })
}

fn description(text: &str) -> Result<String, String> {
    match text.trim().chars().count() {
        0 => Err("must not be empty".to_owned()),
        1..=MAX_DESCRIPTION_CHARS => Ok(text.trim().to_owned()),
        _ => Err(format!("must be at most {MAX_DESCRIPTION_CHARS} characters")),
    }
}

/// Module and function of a handler such as `handler.summarize`.
fn handler(text: &str) -> Result<(String, String), String> {
    let rule = || format!("`{}` is not `file.function`, such as handler.run", shown(text));
    let (module, function) = text.rsplit_once('.').ok_or_else(rule)?;
    let both = is_identifier(module) && is_identifier(function);
    if both { Ok((module.to_owned(), function.to_owned())) } else { Err(rule()) }
}

fn is_identifier(text: &str) -> bool {
    let start = text.bytes().next().is_some_and(|b| b == b'_' || b.is_ascii_alphabetic());
    let rest = text.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric());
    start && rest && text.len() <= 100
}

fn safety_flag(text: &str) -> Result<String, String> {
    if SAFETY_FLAGS.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!("`{}` is not one of {}", shown(text), SAFETY_FLAGS.join(", ")))
}

fn tag(text: &str) -> Result<String, String> {
    let fits = (1..=MAX_TAGS.1).contains(&text.chars().count()) && !text.contains(char::is_control);
    if fits {
        Ok(text.to_owned())
    } else {
        Err(format!("a tag has 1 to {} characters", MAX_TAGS.1))
    }
}

/// Host that calls ask for.
fn host(text: &str) -> Result<String, String> {
    let parsed = text.parse::<HostRule>();
    parsed.map(|_| text.to_owned()).map_err(|invalid| invalid.to_string())
}

/// Name of another tool, or `*`.
fn tool(text: &str) -> Result<String, String> {
    match text == "*" || text.parse::<ToolName>().is_ok() {
        true => Ok(text.to_owned()),
        false => Err(format!("`{}` is not the name of a tool, nor `*`", shown(text))),
    }
}

/// Python package with an optional version, as `requirements.txt` names it; no URL, path or option.
fn requirement(text: &str) -> Result<String, String> {
    let rule =
        || format!("`{}` is not a package with a version, such as requests==2.32.3", shown(text));
    let plain = |c: char| c.is_ascii_alphanumeric() || " ._-[],=<>!~*".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    match begins && text.len() <= 200 && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err(rule()),
    }
}

/// Name of an image: lower case letters, digits, `.`, `_` and `-`.
fn image_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    match begins && text.len() <= 64 && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err(format!("`{}` is not the name of an image", shown(text))),
    }
}

/// Value of an environment variable.
fn env_value(text: &str) -> Result<String, String> {
    match text.len() <= MAX_VALUE_BYTES && !text.contains('\0') {
        true => Ok(text.to_owned()),
        false => Err(format!("a value has at most {MAX_VALUE_BYTES} bytes, none of them zero")),
    }
}

/// Variable that has the placeholder of a secret in a list: its name in capitals.
pub(crate) fn variable_of(name: &SecretName) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    name.as_str().chars().map(plain).collect()
}

fn is_variable(text: &str) -> bool {
    is_identifier(text) && !RESERVED_VARIABLES.contains(&text)
}

/// Pattern of files in the workspace, such as `out/*.csv`.
fn pattern(text: &str) -> Result<String, String> {
    let fits = (1..=100).contains(&text.len()) && !text.starts_with('/') && !text.contains('\0');
    let rule =
        || format!("`{}` is not a pattern of files, such as `*.csv` or `out/**`", shown(text));
    if fits { Ok(text.to_owned()) } else { Err(rule()) }
}

/// Fields of a manifest and the problems found so far.
struct Fields {
    map: Vec<(String, Yaml)>,
    problems: Vec<String>,
}

impl Fields {
    /// Value of a key, if present.
    fn take(&mut self, key: &str) -> Option<Yaml> {
        let at = self.map.iter().position(|(found, _)| found == key)?;
        Some(self.map.swap_remove(at).1).filter(|value| *value != Yaml::Null)
    }

    /// Reports every remaining key without a meaning.
    fn no_others(&mut self) {
        let is_known = |key: &str| {
            KEYS.contains(&key) || IGNORED_KEYS.contains(&key) || key.starts_with(OWN_PREFIX)
        };
        let mut unknown: Vec<_> = self.map.iter().map(|(key, _)| key.as_str()).collect();
        unknown.retain(|key| !is_known(key));
        unknown.sort_unstable();
        self.problems.extend(unknown.into_iter().map(|key| {
            let meant = nearest(key, KEYS.into_iter().chain(IGNORED_KEYS));
            let meant = meant.map(|known| format!("; did you mean `{known}`?"));
            let hint = || format!("; keys of your own begin with `{OWN_PREFIX}`");
            format!("`{}` is not a known key{}", shown(key), meant.unwrap_or_else(hint))
        }));
    }

    fn note<T>(&mut self, key: &str, read: Result<T, String>) -> Option<T> {
        read.map_err(|problem| self.problems.push(format!("{key}: {problem}"))).ok()
    }

    /// Required text.
    fn read<T>(&mut self, key: &str, read: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let value = match self.take(key) {
            Some(Yaml::Text(text)) => read(&text),
            Some(other) => Err(format!("must be text, found {}", other.kind())),
            None => Err("is missing".to_owned()),
        };
        self.note(key, value)
    }

    /// List of texts; empty if absent.
    fn list(
        &mut self,
        key: &str,
        read: impl Fn(&str) -> Result<String, String>,
    ) -> Option<Vec<String>> {
        let value = match self.take(key) {
            None => Ok(Vec::new()),
            Some(Yaml::List(items)) if items.len() > MAX_TAGS.0 => {
                Err(format!("must have at most {} items", MAX_TAGS.0))
            }
            Some(Yaml::List(items)) => items.iter().map(|item| item_text(item, &read)).collect(),
            Some(other) => Err(format!("must be a list, found {}", other.kind())),
        };
        self.note(key, value)
    }

    /// Mapping of environment variables to texts; empty if absent.
    fn variables<T>(
        &mut self,
        key: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Option<BTreeMap<String, T>> {
        let value = match self.take(key) {
            None => Ok(BTreeMap::new()),
            Some(Yaml::Map(map)) if map.len() > MAX_TAGS.0 => {
                Err(format!("must have at most {} items", MAX_TAGS.0))
            }
            Some(Yaml::Map(map)) => map.iter().map(|item| variable(item, &read)).collect(),
            Some(other) => Err(format!("must be a mapping, found {}", other.kind())),
        };
        self.note(key, value)
    }

    /// Secrets: a mapping of variables to names, or a list of names.
    fn secrets(&mut self) -> Option<BTreeMap<String, SecretName>> {
        let name = |text: &str| text.parse::<SecretName>().map_err(|error| error.to_string());
        let is_list =
            self.map.iter().any(|(key, value)| key == "secrets" && matches!(value, Yaml::List(_)));
        if !is_list {
            return self.variables("secrets", name);
        }
        let names = self.list("secrets", |text| name(text).map(|name| name.to_string()))?;
        let names = names.iter().filter_map(|text| text.parse::<SecretName>().ok());
        Some(names.map(|name| (variable_of(&name), name)).collect())
    }

    /// Name of an image; none if absent.
    fn image(&mut self) -> Option<Option<String>> {
        let value = match self.take("image") {
            None => Ok(None),
            Some(Yaml::Text(text)) => image_name(&text).map(Some),
            Some(other) => Err(format!("must be text, found {}", other.kind())),
        };
        self.note("image", value)
    }

    /// Boolean; false if absent. YAML 1.1 reads `yes` as true, and so did the loaders for which existing
    /// folders were written.
    fn truth(&mut self, key: &str) -> Option<bool> {
        let value = match self.take(key) {
            None => Ok(false),
            Some(Yaml::Bool(value)) => Ok(value),
            Some(Yaml::Text(text)) => match text.to_ascii_lowercase().as_str() {
                "yes" | "on" | "true" => Ok(true),
                "no" | "off" | "false" => Ok(false),
                _ => Err("must be true or false, found text".to_owned()),
            },
            Some(other) => Err(format!("must be true or false, found {}", other.kind())),
        };
        self.note(key, value)
    }

    fn limits(&mut self) -> Option<Limits> {
        match self.take("limits") {
            None => Some(Limits::default()),
            Some(Yaml::Map(map)) => limits::read(&map)
                .map_err(|problems| {
                    self.problems.extend(problems.into_iter().map(|p| format!("limits.{p}")));
                })
                .ok(),
            Some(other) => {
                self.note("limits", Err(format!("must be a mapping, found {}", other.kind())))
            }
        }
    }
}

/// One variable of a mapping.
fn variable<T>(
    (name, value): &(String, Yaml),
    read: &impl Fn(&str) -> Result<T, String>,
) -> Result<(String, T), String> {
    if !is_variable(name) {
        return Err(format!("`{}` is not a variable that can be set", shown(name)));
    }
    match value {
        Yaml::Text(text) => read(text).map(|value| (name.clone(), value)),
        other => Err(format!("`{name}` must be text, found {}; quote it", other.kind())),
    }
}

fn item_text(
    item: &Yaml,
    read: &impl Fn(&str) -> Result<String, String>,
) -> Result<String, String> {
    match item {
        Yaml::Text(text) => read(text),
        other => Err(format!("must be a list of texts, found {}", other.kind())),
    }
}
