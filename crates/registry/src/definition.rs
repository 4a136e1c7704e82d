//! Definition of a tool that no files of the server define: imported, or offered by another server.
//!
//! The digest of a tool is that of its definition, so whatever changes is another tool to the ledger, to
//! approvals and to grants.

use std::{collections::BTreeMap, sync::Arc};

use ringfence_egress::HostRule;
use ringfence_types::{
    Digest, Json, Limits, Origin, SecretName, Timestamp, Tool, ToolName, ToolPermissions, ToolRef,
};
use serde::{Deserialize, Serialize};

use crate::{
    entry::{Command, Entry, McpTool, Runs},
    http_tool::HttpTool,
    schema::Schema,
    skill::Example,
    skill::manifest::{SAFETY_FLAGS, variable_of},
    text::{message, shown},
    version::Version,
};

/// Everything that makes a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Name of the tool.
    pub name: ToolName,
    /// Version: three numbers separated by dots.
    pub version: String,
    /// One or two sentences for agents and people.
    pub description: String,
    /// Kind of source.
    pub origin: Origin,
    /// Schema of the arguments.
    pub input_schema: Json,
    /// Schema of the result.
    pub output_schema: Json,
    /// Capabilities, as policy knows them.
    pub safety_flags: Vec<String>,
    /// Whether every call needs an approval.
    #[serde(default)]
    pub requires_approval: bool,
    /// Tags for search.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Limits of one call.
    #[serde(default)]
    pub limits: Limits,
    /// Permissions that it asks for.
    #[serde(default)]
    pub asks: ToolPermissions,
    /// Calls of it with the results that they give.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Example>,
    /// Program or requests that it runs.
    pub runs: Recipe,
}

/// Way in which a defined tool runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recipe {
    /// A program in a sandbox.
    Command(Command),
    /// A tool of an MCP server.
    Mcp(McpTool),
    /// Requests to an HTTP API.
    Http(HttpTool),
}

/// Length limit of a definition as text.
const MAX_BYTES: usize = 512 << 10;

/// Length limit of the description in characters: agents read all of them.
const MAX_DESCRIPTION_CHARS: usize = 4_000;

/// Problems reported for one definition.
const MAX_PROBLEMS: usize = 50;

/// Flags of tools that have effects outside their sandbox or reach the network.
const EFFECTS: [&str; 3] = ["external_call", "side_effect", "network_access"];

impl Definition {
    /// The definition as text, which is kept under its digest.
    pub fn text(&self) -> Json {
        Json::plain(self)
    }

    /// Digest of everything that makes the tool.
    pub fn digest(&self) -> Digest {
        Digest::of_json(&self.text())
    }

    /// Reference to this version.
    pub fn reference(&self) -> ToolRef {
        let (name, version) = (self.name.clone(), self.version.clone());
        ToolRef { name, version, digest: self.digest() }
    }

    /// The definition that a text under a digest is, unless it was changed.
    pub fn read(text: &Json, digest: Digest) -> Result<Self, String> {
        let definition: Self = text.read().map_err(|error| message(&error.to_string()))?;
        match definition.digest() == digest {
            true => Ok(definition),
            false => Err("the stored definition is not the one of its digest".to_owned()),
        }
    }

    /// All problems that keep it from being used.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.text().as_str().len() > MAX_BYTES {
            problems.push(format!("larger than {} KiB", MAX_BYTES >> 10));
        }
        match self.description.trim().chars().count() {
            0 => problems.push("description: must not be empty".to_owned()),
            1..=MAX_DESCRIPTION_CHARS => {}
            _ => {
                problems.push(format!("description: more than {MAX_DESCRIPTION_CHARS} characters"))
            }
        }
        problems.extend(self.permission_problems());
        problems.extend(self.flag_problems());
        problems.extend(self.runs.problems());
        match self.compiled() {
            Ok((_, input, output)) => problems.extend(self.example_problems(&input, &output)),
            Err(found) => problems.extend(found),
        }
        problems.truncate(MAX_PROBLEMS);
        problems.iter().map(|problem| message(problem)).collect()
    }

    /// Examples that the tool's own schemas refuse.
    fn example_problems(&self, input: &Schema, output: &Schema) -> Vec<String> {
        let mut problems = Vec::new();
        for (index, example) in self.examples.iter().enumerate() {
            let mut check = |schema: &Schema, part: &str, value: &Json| {
                if let Err(violations) = schema.check(value) {
                    let first = violations.first().map(|one| one.message.clone());
                    let first = first.unwrap_or_default();
                    problems.push(format!("examples[{index}]: {part}: {first}"));
                }
            };
            check(input, "input", &example.input);
            if !example.is_subset {
                check(output, "output", &example.output);
            }
        }
        problems
    }

    fn permission_problems(&self) -> Vec<String> {
        let mut problems = self.asks.problems();
        for secret in &self.asks.secrets {
            if let Err(invalid) = secret.parse::<SecretName>() {
                problems.push(format!("secrets: {invalid}"));
            }
        }
        for host in &self.asks.hosts {
            if let Err(invalid) = host.parse::<HostRule>() {
                problems.push(format!("hosts: {invalid}"));
            }
        }
        let problems = problems.into_iter();
        problems.map(|problem| format!("permissions: {problem}")).collect()
    }

    fn flag_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.safety_flags.is_empty() {
            problems
                .push("safety_flags: must not be empty; `none` says that there are none".into());
        }
        for flag in &self.safety_flags {
            if !SAFETY_FLAGS.contains(&flag.as_str()) {
                let known = SAFETY_FLAGS.join(", ");
                problems.push(format!("safety_flags: `{}` is not one of {known}", shown(flag)));
            }
        }
        let reaches = self.safety_flags.iter().any(|flag| EFFECTS.contains(&flag.as_str()));
        if !self.asks.hosts.is_empty() && !reaches {
            let words = "safety_flags: a tool that asks for hosts has `external_call`, `side_effect` \
                         or `network_access`";
            problems.push(words.to_owned());
        }
        problems
    }

    fn compiled(&self) -> Result<(Version, Schema, Schema), Vec<String>> {
        let version = self.version.parse().map_err(|error| vec![format!("version: {error}")]);
        let input = Schema::compile_modern("input", &self.input_schema);
        let output = Schema::compile_modern("output", &self.output_schema);
        match (version, input, output) {
            (Ok(version), Ok(input), Ok(output)) => Ok((version, input, output)),
            (version, input, output) => {
                let problems = [version.err(), input.err(), output.err()];
                Err(problems.into_iter().flatten().flatten().collect())
            }
        }
    }

    /// The entry of an active tool: what was granted, not what was asked for, is what it gets.
    pub(crate) fn entry(
        &self,
        granted: &ToolPermissions,
        digest: Digest,
        created_at: Timestamp,
    ) -> Result<Entry, Vec<String>> {
        let (version, input, output) = self.compiled()?;
        let tool = Tool {
            name: self.name.clone(),
            version: self.version.clone(),
            description: self.description.clone(),
            origin: self.origin,
            digest,
            input_schema: self.input_schema.clone(),
            output_schema: self.output_schema.clone(),
            safety_flags: self.safety_flags.clone(),
            requires_approval: self.requires_approval,
            tags: self.tags.clone(),
            network: granted.hosts.clone(),
            env: BTreeMap::new(),
            secrets: secrets(granted),
            outputs: Vec::new(),
            tools: granted.tools.clone(),
            requirements: Vec::new(),
            image: None,
            limits: granted.apply(&self.limits),
            created_at,
        };
        let runs = match &self.runs {
            Recipe::Command(command) => Runs::Command(Arc::new(command.clone())),
            Recipe::Mcp(tool) => Runs::Mcp(Arc::new(tool.clone())),
            Recipe::Http(tool) => Runs::Http(Arc::new(tool.clone())),
        };
        Ok(Entry::defined(tool, runs, granted.clone(), version, input, output))
    }
}

/// Secrets that were granted, by the variable that has the placeholder.
fn secrets(granted: &ToolPermissions) -> BTreeMap<String, SecretName> {
    let names = granted.secrets.iter().filter_map(|name| name.parse::<SecretName>().ok());
    names.map(|name| (variable_of(&name), name)).collect()
}

impl Recipe {
    fn problems(&self) -> Vec<String> {
        match self {
            Recipe::Command(command) => command.problems(),
            Recipe::Mcp(_) => Vec::new(),
            Recipe::Http(tool) => tool.problems(),
        }
    }
}

/// Parts of `granted` that go beyond `asked`, in words.
pub fn beyond(granted: &ToolPermissions, asked: &ToolPermissions) -> Vec<String> {
    let mut beyond = granted.problems();
    beyond.extend(granted.beyond(asked));
    let rules: Vec<HostRule> = asked.hosts.iter().filter_map(|host| host.parse().ok()).collect();
    for host in &granted.hosts {
        match host.parse::<HostRule>() {
            Err(invalid) => beyond.push(format!("hosts: {invalid}")),
            Ok(rule) if rules.iter().any(|asked| asked.covers(&rule)) => {}
            Ok(_) => beyond.push(format!("hosts: `{}`", shown(host))),
        }
    }
    beyond
}

/// One difference between two definitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DefinitionChange {
    /// Place: names and numbers with dots between them.
    pub path: String,
    /// Value before, as JSON; none if it is new.
    pub before: Option<String>,
    /// Value after, as JSON; none if it is gone.
    pub after: Option<String>,
}

/// Differences that are listed.
const MAX_CHANGES: usize = 200;

/// Characters of one value in a difference.
const MAX_VALUE_CHARS: usize = 400;

/// Differences between two definitions, by place.
pub fn differences(before: &Json, after: &Json) -> Vec<DefinitionChange> {
    let (mut old, mut new) = (BTreeMap::new(), BTreeMap::new());
    flatten(&before.to_value(), String::new(), &mut old);
    flatten(&after.to_value(), String::new(), &mut new);
    let mut changes = Vec::new();
    for (path, value) in &old {
        if new.get(path) != Some(value) {
            let (before, after) = (Some(value.clone()), new.get(path).cloned());
            changes.push(DefinitionChange { path: path.clone(), before, after });
        }
    }
    for (path, value) in &new {
        if !old.contains_key(path) {
            let after = Some(value.clone());
            changes.push(DefinitionChange { path: path.clone(), before: None, after });
        }
    }
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    changes.truncate(MAX_CHANGES);
    for change in &mut changes {
        change.path = message(&change.path);
        for value in [&mut change.before, &mut change.after].into_iter().flatten() {
            *value = value.chars().take(MAX_VALUE_CHARS).collect();
        }
    }
    changes
}

fn flatten(value: &serde_json::Value, path: String, into: &mut BTreeMap<String, String>) {
    use serde_json::Value;
    let within =
        |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().for_each(|(name, value)| flatten(value, within(name), into));
        }
        Value::Array(items) if !items.is_empty() => {
            let numbered = items.iter().enumerate();
            numbered.for_each(|(index, value)| flatten(value, within(&index.to_string()), into));
        }
        plain => drop(into.insert(path, plain.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition() -> Definition {
        serde_json::from_value(json!({
            "name": "greet", "version": "1.0.0", "description": "Greets.", "origin": "manifest",
            "input_schema": {"type": "object"}, "output_schema": {"type": "object"},
            "safety_flags": ["none"], "runs": {"command": {"argv": ["cat"]}},
        }))
        .unwrap()
    }

    #[test]
    fn a_definition_reads_back_under_its_digest_and_no_other() {
        let one = definition();
        assert_eq!(one.problems(), [""; 0]);
        assert_eq!(Definition::read(&one.text(), one.digest()), Ok(one.clone()));
        let other = Definition { description: "Greets!".into(), ..one.clone() };
        assert_ne!(other.digest(), one.digest());
        assert!(Definition::read(&other.text(), one.digest()).is_err());
    }

    #[test]
    fn every_problem_is_named() {
        let mut bad = definition();
        bad.version = "1".into();
        bad.description = " ".into();
        bad.safety_flags = vec!["harmless".into()];
        bad.asks.hosts = vec!["http://x".into()];
        bad.input_schema = Json::parse(br#"{"type": 3}"#).unwrap();
        bad.runs = Recipe::Command(Command::default());
        let problems = bad.problems();
        for part in ["version", "description", "harmless", "hosts", "input", "command"] {
            assert!(problems.iter().any(|problem| problem.contains(part)), "{part}: {problems:?}");
        }
    }

    #[test]
    fn a_tool_that_asks_for_hosts_says_so_in_its_flags() {
        let mut quiet = definition();
        quiet.asks.hosts = vec!["api.example".into()];
        assert_eq!(quiet.problems().len(), 1, "{:?}", quiet.problems());
        quiet.safety_flags = vec!["network_access".into()];
        assert_eq!(quiet.problems(), [""; 0]);
    }

    #[test]
    fn a_grant_may_be_less_and_never_more() {
        let of = |hosts: &[&str]| ToolPermissions {
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
            ..ToolPermissions::default()
        };
        assert!(beyond(&of(&["a.example"]), &of(&["*.example", "a.example"])).is_empty());
        assert!(beyond(&of(&[]), &of(&["a.example"])).is_empty());
        assert_eq!(beyond(&of(&["b.example"]), &of(&["a.example"])), ["hosts: `b.example`"]);
    }

    #[test]
    fn differences_are_named_by_place() {
        let before = definition();
        let mut after = definition();
        after.description = "Greets, and sends a copy.".into();
        after.asks.hosts = vec!["evil.example".into()];
        let changes = differences(&before.text(), &after.text());
        let shown: Vec<_> = changes
            .iter()
            .map(|c| (c.path.as_str(), c.before.as_deref(), c.after.as_deref()))
            .collect();
        assert_eq!(
            shown,
            [
                ("asks", Some("{}"), None),
                ("asks.hosts.0", None, Some("\"evil.example\"")),
                ("description", Some("\"Greets.\""), Some("\"Greets, and sends a copy.\"")),
            ]
        );
    }
}
