//! Skill loaded from its files: `skill.yaml`, `schema.json` and the handler.
//!
//! Loading reads and checks; it never evaluates the handler's code.

pub(crate) mod agent;
mod compare;
pub(crate) mod examples;
mod limits;
pub(crate) mod manifest;
pub(crate) mod yaml;

use std::sync::Arc;

use ringfence_types::{Digest, Json};

use self::manifest::Manifest;
pub use self::{agent::Guide, examples::Example, manifest::REQUIREMENT};
use crate::{files::Files, schema::Schema, text::message};

/// Files that make a folder look like a skill.
pub(crate) const MARKERS: [&str; 4] = ["skill.yaml", "schema.json", "handler.py", "SKILL.md"];

/// Problems reported for one skill: enough to repair it, too few to flood a list.
const MAX_PROBLEMS: usize = 50;

/// Valid skill.
#[derive(Debug)]
pub(crate) struct Skill {
    pub(crate) manifest: Manifest,
    pub(crate) digest: Digest,
    pub(crate) input: Schema,
    pub(crate) output: Schema,
    pub(crate) code: Arc<str>,
    pub(crate) files: Vec<(String, Arc<[u8]>)>,
}

/// Loads a skill, or returns all problems.
pub(crate) fn load(files: &Files) -> Result<Skill, Vec<String>> {
    load_all(files).map_err(|problems| {
        problems.into_iter().take(MAX_PROBLEMS).map(|problem| message(&problem)).collect()
    })
}

fn load_all(files: &Files) -> Result<Skill, Vec<String>> {
    if files.get("skill.yaml").is_none() && files.get("SKILL.md").is_some() {
        let problem = "only SKILL.md: an Agent Skill is read from a folder beside the server; a skill that is \
                       registered needs a skill.yaml";
        return Err(vec![problem.to_owned()]);
    }
    let manifest = required(files, "skill.yaml").and_then(manifest::parse);
    let schemas = required(files, "schema.json").and_then(schemas);
    let code = match &manifest {
        Ok(manifest) => code(files, manifest),
        // The manifest names the file; without a manifest only the usual one can be reported missing.
        Err(_) => required(files, "handler.py").map(|_| Arc::from("")),
    };
    match (manifest, schemas, code) {
        (Ok(manifest), Ok((input, output)), Ok(code)) => {
            let (digest, files) = (files.digest(), others(files, &manifest));
            Ok(Skill { manifest, digest, input, output, code, files })
        }
        (manifest, schemas, code) => {
            let problems = [manifest.err(), schemas.err(), code.err()];
            Err(problems.into_iter().flatten().flatten().collect())
        }
    }
}

fn required<'a>(files: &'a Files, path: &str) -> Result<&'a [u8], Vec<String>> {
    let missing = || vec![format!("{path} is missing")];
    files.get(path).map(|content| &**content).ok_or_else(missing)
}

fn others(files: &Files, manifest: &Manifest) -> Vec<(String, Arc<[u8]>)> {
    let handler = manifest.handler_path();
    let others = files.iter().filter(|(path, _)| *path != handler);
    others.map(|(path, content)| (path.to_owned(), Arc::clone(content))).collect()
}

/// Text of the handler. Whether it defines the function shows when it runs; a text that never
/// contains the function's name is refused now.
fn code(files: &Files, manifest: &Manifest) -> Result<Arc<str>, Vec<String>> {
    let path = manifest.handler_path();
    let bytes = required(files, &path)?;
    let code = std::str::from_utf8(bytes).map_err(|_| vec![format!("{path} is not UTF-8")])?;
    let function = &manifest.function;
    let is_word = |c: char| c == '_' || c.is_alphanumeric();
    let named = code.split(|c| !is_word(c)).any(|word| word == function);
    if named || code.contains("import *") {
        Ok(code.into())
    } else {
        Err(vec![format!("{path} does not define `{function}`, which skill.yaml calls")])
    }
}

/// Input and output schemas of `schema.json`.
fn schemas(bytes: &[u8]) -> Result<(Schema, Schema), Vec<String>> {
    if bytes.len() > MAX_SCHEMA_BYTES {
        return Err(vec![format!("schema.json is larger than {} KiB", MAX_SCHEMA_BYTES >> 10)]);
    }
    let json = Json::parse(bytes).map_err(|error| vec![format!("schema.json: {error}")])?;
    let parts: Parts =
        json.read().map_err(|_| vec!["schema.json: must be an object".to_owned()])?;
    let default = parts.schema.as_deref();
    let compile = |name: &str, part: Option<Json>| match part {
        Some(schema) => Schema::compile(name, &schema, default),
        None => Err(vec![format!("schema.json: `{name}` is missing")]),
    };
    match (compile("input", parts.input), compile("output", parts.output)) {
        (Ok(input), Ok(output)) => Ok((input, output)),
        (input, output) => {
            Err([input.err(), output.err()].into_iter().flatten().flatten().collect())
        }
    }
}

/// Size limit of `schema.json`.
const MAX_SCHEMA_BYTES: usize = 256 << 10;

#[derive(serde::Deserialize)]
struct Parts {
    /// Draft of both schemas, where they do not name one themselves.
    #[serde(rename = "$schema")]
    schema: Option<String>,
    input: Option<Json>,
    output: Option<Json>,
}

#[cfg(test)]
mod tests;
