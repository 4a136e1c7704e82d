//! What the built-in tools are called, take and give.

use std::time::Duration;

use ringfence_types::{Bytes, Digest, Json, Limits, Origin, Timestamp, Tool};
use serde_json::{Value, json};

struct Definition {
    name: &'static str,
    description: &'static str,
    flags: &'static [&'static str],
    input: Value,
    output: Value,
}

/// All of them, as the registry lists them.
pub fn tools(now: Timestamp) -> Vec<Tool> {
    definitions().into_iter().map(|definition| tool(definition, now)).collect()
}

fn tool(definition: Definition, now: Timestamp) -> Tool {
    let version = env!("CARGO_PKG_VERSION");
    let json = |value: &Value| Json::of(value).expect("our own schemas are plain JSON");
    // What a built-in does changes with the binary, so its version is part of its digest.
    let whole = json!({
        "name": definition.name, "version": version, "flags": definition.flags,
        "input": definition.input, "output": definition.output,
    });
    Tool {
        name: definition.name.parse().expect("our own names are valid"),
        version: version.to_owned(),
        description: definition.description.to_owned(),
        origin: Origin::Builtin,
        digest: Digest::of_json(&json(&whole)),
        input_schema: json(&definition.input),
        output_schema: json(&definition.output),
        safety_flags: definition.flags.iter().map(|&flag| flag.to_owned()).collect(),
        requires_approval: false,
        tags: vec!["builtin".to_owned()],
        limits: Limits {
            wall: Duration::from_secs(60),
            memory: Bytes::mib(512),
            ..Limits::default()
        },
        created_at: now,
    }
}

fn object(required: &[&str], properties: Value) -> Value {
    json!({
        "type": "object", "properties": properties, "required": required,
        "additionalProperties": false,
    })
}

fn message() -> Value {
    object(&["message"], json!({"message": {"type": "string"}}))
}

fn definitions() -> Vec<Definition> {
    vec![
        Definition {
            name: "echo",
            description: "Says what it was told.",
            flags: &["none"],
            input: object(&["text"], json!({"text": {"type": "string"}})),
            output: message(),
        },
        Definition {
            name: "timestamp",
            description: "Tells the time in UTC, formatted as strftime does.",
            flags: &["none"],
            input: object(
                &[],
                json!({"format": {"type": "string", "maxLength": 256, "default": "%Y-%m-%dT%H:%M:%SZ"}}),
            ),
            output: message(),
        },
        Definition {
            name: "code_execute",
            description: "Runs source text in a fresh sandbox without network and gives what it \
                          printed and, for Python, the names it left.",
            flags: &["none"],
            input: object(
                &["code"],
                json!({
                    "code": {"type": "string", "maxLength": 1_000_000},
                    "language": {"enum": ["python", "javascript", "bash"], "default": "python"},
                }),
            ),
            output: object(
                &["stdout", "locals"],
                json!({"stdout": {"type": "string"}, "locals": {"type": "object"}}),
            ),
        },
        Definition {
            name: "file_read",
            description: "Reads a text file of the caller's own work directory.",
            flags: &["file_system"],
            input: object(&["path"], json!({"path": {"type": "string", "maxLength": 4096}})),
            output: object(
                &["path", "content"],
                json!({"path": {"type": "string"}, "content": {"type": "string"}}),
            ),
        },
        Definition {
            name: "http_fetch",
            description: "Fetches a public web address. Private and local addresses are refused.",
            flags: &["external_call", "network_access"],
            input: object(
                &["url"],
                json!({
                    "url": {"type": "string", "pattern": "^http", "maxLength": 8192},
                    "timeout": {"type": "number", "minimum": 0, "default": 10.0},
                }),
            ),
            output: object(
                &["url", "status_code", "headers", "text"],
                json!({
                    "url": {"type": "string"}, "status_code": {"type": "integer"},
                    "headers": {"type": "object"}, "text": {"type": "string"},
                }),
            ),
        },
        Definition {
            name: "canvas_append",
            description: "Adds content to a pane of a session's canvas.",
            flags: &["none"],
            input: json!({
                "type": "object",
                "properties": {
                    "session_id": {"type": "string", "minLength": 1, "maxLength": 128},
                    "content": {},
                    "pane": {"type": "string", "default": "default", "maxLength": 128},
                    "metadata": {"type": "object"},
                    "persona_id": {"type": ["string", "null"]},
                },
                "required": ["session_id", "content"],
            }),
            output: object(
                &["status", "pane"],
                json!({"status": {"type": "string"}, "pane": {"type": "string"}}),
            ),
        },
    ]
}
