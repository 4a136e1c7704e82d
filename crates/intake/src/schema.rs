//! JSON schemas of SomaAgent 01's messages, shipped as files and enforced on the way in and out.

use std::sync::LazyLock;

use jsonschema::{Draft, Validator};
use serde_json::Value;

/// The files, by name.
pub const FILES: [(&str, &str); 5] = [
    ("conversation_event.json", include_str!("../schemas/conversation_event.json")),
    ("delegation_task.json", include_str!("../schemas/delegation_task.json")),
    ("tool_event.json", include_str!("../schemas/tool_event.json")),
    ("tool_request.json", include_str!("../schemas/tool_request.json")),
    ("tool_result.json", include_str!("../schemas/tool_result.json")),
];

/// Problems of one value that are named.
const MAX_PROBLEMS: usize = 10;

/// Characters of a problem that are named: values of clients can be long.
const MAX_PROBLEM_CHARS: usize = 300;

/// Problems of a value under the schema of this name; none if it fits.
///
/// # Panics
///
/// If there is no such schema.
pub fn problems(name: &str, value: &Value) -> Vec<String> {
    static COMPILED: LazyLock<Vec<(&str, Validator)>> = LazyLock::new(|| {
        let text = |(name, text): (&'static str, &str)| (name, compiled(text));
        // `tool_event.json` is another name of `tool_result.json`.
        FILES.into_iter().filter(|(name, _)| *name != "tool_event.json").map(text).collect()
    });
    let found = COMPILED.iter().find(|(known, _)| *known == name);
    let (_, validator) = found.expect("the schema is one of ours");
    let problem = |error: jsonschema::ValidationError<'_>| {
        let text = match error.instance_path().as_str() {
            "" => error.to_string(),
            path => format!("{path}: {error}"),
        };
        text.chars().take(MAX_PROBLEM_CHARS).collect()
    };
    validator.iter_errors(value).take(MAX_PROBLEMS).map(problem).collect()
}

fn compiled(text: &str) -> Validator {
    let schema: Value = serde_json::from_str(text).expect("a schema of ours is JSON");
    let options = jsonschema::options().with_draft(Draft::Draft202012).offline();
    options.build(&schema).expect("a schema of ours is valid")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_file_is_a_schema_of_its_name() {
        for (name, text) in FILES {
            let schema: Value = serde_json::from_str(text).unwrap();
            assert_eq!(schema["$id"], name);
            assert!(jsonschema::draft202012::meta::is_valid(&schema), "{name}");
        }
    }

    #[test]
    fn all_problems_are_named() {
        let value = json!({"event_id": 1, "tool_name": "echo", "args": {}, "metadata": {}, "x": 1});
        let found = problems("tool_request.json", &value).join("\n");
        for part in ["/event_id", "session_id", "('x' was unexpected)"] {
            assert!(found.contains(part), "no {part} in {found}");
        }
        let whole = json!({
            "event_id": "1", "session_id": "s", "tool_name": "echo", "args": {}, "metadata": {},
        });
        assert_eq!(problems("tool_request.json", &whole), [""; 0]);
    }
}
