//! An example of every JSON body, made from its schema: required fields, and those that have one here.

use serde_json::{Map, Value, json};

/// Writes an example beside the schema of each JSON body.
pub(super) fn write(document: &mut Value) {
    let schemas = document["components"]["schemas"].clone();
    let paths = document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
    let operations = paths.filter_map(Value::as_object_mut).flat_map(Map::values_mut);
    for operation in operations {
        let body = operation.pointer_mut("/requestBody/content/application~1json");
        if let Some(body) = body {
            body["example"] = example(&body["schema"], &schemas, "", DEPTH);
        }
    }
}

/// Nesting limit of example bodies.
const DEPTH: usize = 6;

/// Values of fields, by schema and name: required fields without a plain value, and fields that
/// show the purpose of a body.
const FIELDS: &[(&str, &str, &str)] = &[
    ("CallRequest", "tool", r#""echo""#),
    ("CallRequest", "args", r#"{"text": "hello"}"#),
    ("ExecutionRequest", "skill", r#""text_summarize""#),
    ("ExecutionRequest", "args", r#"{"text": "One. Two. Three.", "max_sentences": 2}"#),
    (
        "SkillUpload",
        "files",
        r#"{"skill.yaml": "name: greet\nversion: 1.0.0\ndescription: Greets.\nhandler: handler.greet\nsafety_flags: [none]\n",
            "schema.json": "{\"input\": {\"type\": \"object\"}, \"output\": {\"type\": \"object\"}}",
            "handler.py": "def greet(name):\n    return {\"text\": \"Hello \" + name}\n"}"#,
    ),
    (
        "ReplayRequest",
        "files",
        r#"{"rules.rego": "package ringfence\n\ndefault decision := {\"decision\": \"deny\"}\n"}"#,
    ),
    ("ArtifactRequest", "title", r#""notes.md""#),
    ("ArtifactRequest", "content", r##""# Notes""##),
    ("ArtifactVerdictRequest", "type", r#""review""#),
    ("ArtifactVerdictRequest", "decision", r#""accept""#),
    ("ArtifactLabelRequest", "labels", r#"["internal"]"#),
    ("SessionMessage", "message", r#""what can you do?""#),
    ("SessionActionRequest", "session_id", r#""s-1""#),
    ("SessionActionRequest", "action", r#""summarize""#),
    ("DiscoveryRequest", "capability", r#""convert a PDF file to text""#),
    ("DiscoveryRejection", "why", r#""not needed""#),
    ("LlmInvokeRequest", "messages", r#"[{"role": "user", "content": "hello"}]"#),
    ("KeyRequest", "label", r#""reviewer""#),
    ("KeyRequest", "scopes", r#"["read", "approve"]"#),
    ("SecretRequest", "value", r#""s3cr3t""#),
    ("SecretRequest", "tools", r#"["http_fetch"]"#),
    ("SecretRequest", "hosts", r#"["api.example.com"]"#),
    ("SecretRequest", "header", r#""authorization""#),
    (
        "PlanRequest",
        "steps",
        r#"[{"id": "hello", "type": "command", "payload": {"command": "echo hello"}}]"#,
    ),
    ("PlanChange", "action", r#""pause""#),
    ("PlanStepChange", "action", r#""skip""#),
    ("BudgetRequest", "tenant", r#""acme""#),
    ("BudgetRequest", "calls", "10000"),
    ("McpServerRequest", "name", r#""time""#),
    ("McpServerRequest", "command", r#"["mcp-server-time"]"#),
    ("PruneRequest", "older_than", "7776000"),
    ("EraseRequest", "reason", r#""request 1234""#),
    ("Resolution", "action", r#""approve""#),
    ("ExecRequest", "argv", r#"["ls", "-l"]"#),
    ("ExecuteRequest", "code", r#""print(6 * 7)""#),
    ("CompleteRequest", "code", r#""import os; os.pa""#),
    ("InterpreterRequest", "language", r#""python""#),
    ("SignalRequest", "signal", r#""TERM""#),
    ("TerminalSize", "rows", "24"),
    ("TerminalSize", "columns", "80"),
    ("RenameRequest", "from", r#""a.txt""#),
    ("RenameRequest", "to", r#""b.txt""#),
    ("CanvasEvent", "session_id", r#""s-1""#),
    ("CanvasEvent", "content", r#"{"text": "hello"}"#),
    ("EvaluationRequest", "action", r#""tool.execute""#),
    ("EvaluationRequest", "resource", r#""echo""#),
    ("AccessEvaluationRequest", "subject", r#"{"type": "persona", "id": "ann"}"#),
    ("AccessEvaluationRequest", "action", r#"{"name": "tool.execute"}"#),
    ("AccessEvaluationRequest", "resource", r#"{"type": "tool", "id": "echo"}"#),
    (
        "AccessEvaluationsRequest",
        "evaluations",
        r#"[{"subject": {"type": "persona", "id": "ann"}, "action": {"name": "tool.execute"},
            "resource": {"type": "tool", "id": "echo"}}]"#,
    ),
    ("SandboxTimes", "idle_secs", "600"),
];

fn example(schema: &Value, schemas: &Value, name: &str, depth: usize) -> Value {
    if depth == 0 {
        return Value::Null;
    }
    if let Some(target) = schema["$ref"].as_str().and_then(|target| target.rsplit('/').next()) {
        return example(&schemas[target], schemas, target, depth - 1);
    }
    for given in [&schema["example"], &schema["const"], &schema["default"], &schema["enum"][0]] {
        if !given.is_null() {
            return given.clone();
        }
    }
    let choices = ["oneOf", "anyOf", "allOf"].into_iter().find_map(|kind| schema[kind].as_array());
    let is_something = |choice: &&Value| choice["type"] != "null";
    if let Some(choice) = choices.and_then(|choices| choices.iter().find(is_something)) {
        return example(choice, schemas, name, depth - 1);
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.first().and_then(Value::as_str),
        kind => kind.as_str(),
    };
    match kind {
        Some("object") => object(schema, schemas, name, depth),
        Some("array") => json!([example(&schema["items"], schemas, name, depth - 1)]),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(false),
        Some("string") if schema["format"] == "date-time" => json!("2030-01-31T12:00:00Z"),
        Some("string") => json!("text"),
        _ => json!({}),
    }
}

fn object(schema: &Value, schemas: &Value, name: &str, depth: usize) -> Value {
    let required = schema["required"].as_array();
    let is_required = |field: &str| required.is_some_and(|all| all.iter().any(|one| one == field));
    let mut fields = Map::new();
    for (field, inner) in schema["properties"].as_object().into_iter().flatten() {
        let given = FIELDS.iter().find(|(of, named, _)| (*of, *named) == (name, field));
        if let Some((_, _, text)) = given {
            let value = serde_json::from_str(text).expect("our own examples are JSON");
            fields.insert(field.clone(), value);
        } else if is_required(field) {
            fields.insert(field.clone(), example(inner, schemas, "", depth - 1));
        }
    }
    Value::Object(fields)
}
