//! JSON Schemas, compiled once.
//!
//! Draft-07 and 2020-12, selected by `$schema`. Whether `format` is asserted follows the draft: it is
//! asserted in draft-07 and an annotation in 2020-12. Nothing outside the schema is ever fetched.
//!
//! Patterns run on the engine without backtracking, so look-around and back-references are refused
//! and no text can make one slow. Compiled patterns stay far below the size at which that engine
//! panics on empty text.

mod cost;

use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use ringfence_types::{Json, json};
use serde_json::Value;

use self::cost::{Bounds, Measure};
use crate::text::{message, shown};

/// Violations reported for one value.
const MAX_VIOLATIONS: usize = 50;
/// Size limit of one compiled pattern.
const MAX_PATTERN_BYTES: usize = 1 << 20;
/// Violation of a schema by a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Violation {
    /// JSON Pointer to the place in the value; empty for the whole.
    pub pointer: String,
    /// Description, without quoting the value.
    pub message: String,
    /// Keyword of the schema that is violated.
    pub keyword: String,
}

/// Compiled schema.
#[derive(Debug)]
pub struct Schema {
    source: Json,
    validator: Validator,
    bounds: Bounds,
}

impl Schema {
    /// Compiles a schema of a skill folder: draft-07 unless it or its file says otherwise.
    pub(crate) fn compile(
        name: &str,
        source: &Json,
        default: Option<&str>,
    ) -> Result<Self, Vec<String>> {
        let default = default.map_or(Ok(Draft::Draft7), draft_of);
        default
            .map_err(|problem| vec![problem])
            .and_then(|default| compile(source, default))
            .map_err(|problems| named(&format!("schema.json: {name}"), problems))
    }

    /// Compiles a schema of a built-in tool: 2020-12 unless it says otherwise.
    pub fn compile_modern(name: &str, source: &Json) -> Result<Self, Vec<String>> {
        compile(source, Draft::Draft202012)
            .map_err(|problems| named(&format!("schema of its {name}"), problems))
    }

    /// Source of the schema.
    pub(crate) fn source(&self) -> &Json {
        &self.source
    }

    /// Checks a value; returns all violations, up to a bound.
    pub fn check(&self, value: &Json) -> Result<(), Vec<Violation>> {
        // The text has at least as many bytes as parts, which nearly always suffices.
        let most = Measure { depth: json::DEPTH, parts: value.as_str().len() as u64 };
        if !self.bounds.allow(most) && !self.bounds.allow(measure(value.as_str())) {
            return Err(vec![too_costly()]);
        }
        let value = value.to_value();
        if self.validator.is_valid(&value) {
            return Ok(());
        }
        let errors = self.validator.iter_errors(&value).take(MAX_VIOLATIONS);
        let mut violations: Vec<Violation> = errors.map(violation).collect();
        violations.sort();
        Err(violations)
    }
}

fn too_costly() -> Violation {
    Violation {
        pointer: String::new(),
        message: "too deep or too large for this schema to be checked in time".to_owned(),
        keyword: "$ref".to_owned(),
    }
}

fn named(name: &str, problems: Vec<String>) -> Vec<String> {
    problems.into_iter().map(|problem| format!("{name}: {problem}")).collect()
}

/// Violation from an error. Values are not quoted: they may be large or secret.
fn violation(error: ValidationError<'_>) -> Violation {
    Violation {
        pointer: message(error.instance_path().as_str()),
        message: message(&error.masked().to_string()),
        keyword: shown(error.kind().keyword()),
    }
}

fn compile(source: &Json, default: Draft) -> Result<Schema, Vec<String>> {
    let one = |problem: String| vec![problem];
    let value = source.to_value();
    let Value::Object(fields) = &value else {
        return Err(one("must be an object".to_owned()));
    };
    let draft = match fields.get("$schema") {
        None => default,
        Some(Value::String(uri)) => draft_of(uri).map_err(one)?,
        Some(_) => return Err(one("`$schema` must be text".to_owned())),
    };
    let bounds = Bounds::of(&value).map_err(one)?;
    let validator = build(&value, draft)?;
    Ok(Schema { source: source.clone(), validator, bounds })
}

fn draft_of(uri: &str) -> Result<Draft, String> {
    let bare = uri.trim_end_matches('#');
    let bare = bare.strip_prefix("http://").or_else(|| bare.strip_prefix("https://"));
    match bare {
        Some("json-schema.org/draft-07/schema") => Ok(Draft::Draft7),
        Some("json-schema.org/draft/2020-12/schema") => Ok(Draft::Draft202012),
        _ => Err(format!("`$schema` `{}` is neither draft-07 nor 2020-12", shown(uri))),
    }
}

/// Checks the schema against its draft, collecting all problems, then compiles it.
fn build(schema: &Value, draft: Draft) -> Result<Validator, Vec<String>> {
    let problems: Vec<String> = match draft {
        Draft::Draft7 => wrongs(&jsonschema::draft7::meta::validator(), schema),
        _ => wrongs(&jsonschema::draft202012::meta::validator(), schema),
    };
    if !problems.is_empty() {
        return Err(problems);
    }
    jsonschema::options()
        .with_draft(draft)
        .offline()
        .with_pattern_options(
            PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES),
        )
        .build(schema)
        .map_err(|error| vec![problem(&error)])
}

fn wrongs(meta: &Validator, schema: &Value) -> Vec<String> {
    let errors = meta.iter_errors(schema).take(MAX_VIOLATIONS);
    let mut problems: Vec<String> = errors.map(|error| problem(&error)).collect();
    problems.sort();
    problems
}

fn problem(error: &ValidationError<'_>) -> String {
    match error.instance_path().as_str() {
        "" => error.to_string(),
        path => format!("at {}: {error}", shown(path)),
    }
}

/// Nesting depth and an upper bound of the number of values in compact JSON.
fn measure(text: &str) -> Measure {
    let (mut now, mut most, mut parts) = (0_usize, 0, 1);
    let (mut quoted, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' => {
                now += 1;
                most = most.max(now);
                parts += 1;
            }
            b']' | b'}' => now = now.saturating_sub(1),
            b',' => parts += 1,
            _ => {}
        }
    }
    Measure { depth: most, parts }
}

#[cfg(test)]
mod tests;
