//! Bounds that handler types cannot express: patterns of names, lengths of texts, refused unknown
//! fields, binary bodies.
//!
//! A request that fits this document is not refused for its shape. Conditions beyond a schema (that
//! arguments fit their tool, that an instant is in the future) are checked by the server.

use serde_json::{Value, json};

/// Completes schemas and parameters.
pub(super) fn write(document: &mut Value) {
    let schemas = &mut document["components"]["schemas"];
    for (schema, field, bound) in FIELDS {
        add(&mut schemas[schema]["properties"][field], bound);
    }
    for schema in CLOSED {
        schemas[schema]["additionalProperties"] = json!(false);
    }
    let coded = json!({
        "type": "object", "properties": {"base64": {"type": "string", "pattern": BASE64}},
        "required": ["base64"], "additionalProperties": false,
    });
    let open = json!({
        "type": "object", "properties": {"open": {"const": true}},
        "required": ["open"], "additionalProperties": false,
    });
    let text = json!({"type": "string"});
    let files = &mut schemas["SkillUpload"]["properties"]["files"];
    files["additionalProperties"] = json!({"oneOf": [text, coded]});
    let stdin = &mut schemas["ExecRequest"]["properties"]["stdin"];
    let described = stdin["description"].take();
    *stdin = json!({"oneOf": [text, coded, open, {"type": "null"}], "description": described});
    // Any JSON value.
    for (schema, field) in [
        ("CanvasEvent", "content"),
        ("Kept", "content"),
        ("ReadPart", "value"),
        ("Setting", "value"),
        ("DocumentChange", "from"),
        ("DocumentChange", "to"),
    ] {
        schemas[schema]["properties"][field] = json!({"description": "Anything."});
    }
    schemas["ExecRequest"]["properties"]["argv"]["prefixItems"] = json!([{
        "type": "string", "pattern": "^[^\\x00]+$",
    }]);
    let Some(paths) = document["paths"].as_object_mut() else { return };
    for (path, item) in paths {
        for operation in item.as_object_mut().into_iter().flat_map(|item| item.values_mut()) {
            parameters(path, operation);
            bytes(operation);
        }
    }
}

/// Adds the members of an object, written as text.
fn add(to: &mut Value, bound: &str) {
    let bound: Value = serde_json::from_str(bound).expect("our own bounds are JSON");
    let (Some(to), Value::Object(bound)) = (to.as_object_mut(), bound) else { return };
    to.extend(bound);
}

const TOOL: &str = r#"{"pattern": "^[A-Za-z0-9_.-]{1,128}$"}"#;
const SECRET: &str = r#"{"pattern": "^[A-Za-z0-9_.-]{1,64}$"}"#;
const SECRETS: &str = r#"{"maxProperties": 32, "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]{0,99}$"},
    "additionalProperties": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$"}}"#;
const ID: &str = r#"{"pattern": "^[!-~]{1,128}$"}"#;
const TENANT: &str = r#"{"pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$"}"#;
const ENVIRONMENT: &str = r#"{"propertyNames": {"pattern": "^[^=\\x00]+$"},
    "additionalProperties": {"type": "string", "pattern": "^[^\\x00]*$"}}"#;
/// Relative, or beneath `/workspace`; no component is empty, `.` or `..`.
const PATH: &str = r#"{"pattern": "^(/workspace/)?([^/.\\x00][^/\\x00]*|\\.[^/.\\x00][^/\\x00]*)(/([^/.\\x00][^/\\x00]*|\\.[^/.\\x00][^/\\x00]*))*$"}"#;
const ACTION: &str = r#"{"pattern": "^[a-z0-9_]+(\\.[a-z0-9_]+)*$", "maxLength": 64}"#;
const ENTITY: &str = r#"{"required": ["type", "id"], "properties": {
    "type": {"type": "string"}, "id": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,128}$"}}}"#;
const NAMED: &str = r#"{"required": ["name"], "properties": {
    "name": {"type": "string", "pattern": "^[a-z0-9_]+(\\.[a-z0-9_]+)*$", "maxLength": 64}}}"#;
const WHY: &str = r#"{"minLength": 1, "maxLength": 1000, "pattern": "\\S"}"#;
const DIGEST: &str = r#"{"pattern": "^sha256:[0-9a-f]{64}$"}"#;
const UUID: &str = r#"{"format": "uuid"}"#;
const KEY: &str = r#"{"pattern": "^(\"[!#-\\[\\]-~]{1,255}\"|[!#-\\[\\]-~]{1,255})$", "example": "\"8e03978e\""}"#;
/// Parameters that are UUIDs.
const UUIDS: &[&str] = &[
    "/v1/artifacts",
    "/api/v1/artifacts",
    "/v1/calls",
    "/v1/discovery",
    "/v1/keys",
    "/v1/holds",
    "/v1/requeue",
    "/v1/plans",
    "/v1/policy/requeue",
    "/v1/approvals",
];
/// Pattern of base64.
const BASE64: &str = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$";

/// Fields of bodies, by schema.
const FIELDS: &[(&str, &str, &str)] = &[
    ("CallRequest", "tool", TOOL),
    ("CallRequest", "version", r#"{"maxLength": 64}"#),
    ("CallRequest", "wait", r#"{"maximum": 300}"#),
    ("CallRequest", "session_id", ID),
    ("CallRequest", "persona_id", ID),
    ("DiscoveryRequest", "capability", r#"{"minLength": 1, "maxLength": 1000}"#),
    ("DiscoveryRequest", "propose", r#"{"maximum": 10}"#),
    ("DiscoveryRequest", "name", r#"{"minLength": 1, "maxLength": 300}"#),
    ("DiscoveryRequest", "wait", r#"{"minimum": 0, "maximum": 300}"#),
    ("DiscoveryRejection", "why", WHY),
    ("ToolChangeRequest", "why", WHY),
    ("ToolChangeRequest", "digest", DIGEST),
    ("ToolApprovalRequest", "why", WHY),
    ("ToolApprovalRequest", "digest", DIGEST),
    ("ToolGrantRequest", "why", WHY),
    ("ToolGrantRequest", "digest", DIGEST),
    ("CanvasEvent", "session_id", ID),
    ("CanvasEvent", "persona_id", ID),
    ("CanvasEvent", "pane", r#"{"maxLength": 128}"#),
    ("KeyRequest", "label", r#"{"minLength": 1, "maxLength": 200}"#),
    (
        "KeyRequest",
        "scopes",
        r#"{"minItems": 1, "items": {"enum": ["call", "read", "approve", "admin"]}}"#,
    ),
    ("KeyRequest", "tenant", TENANT),
    ("KeyRequest", "persona_id", ID),
    ("BudgetRequest", "tenant", TENANT),
    ("BudgetRequest", "key_id", UUID),
    ("BudgetRequest", "per", r#"{"enum": ["day", "hour"]}"#),
    ("BudgetRequest", "calls", r#"{"maximum": 9007199254740991}"#),
    ("BudgetRequest", "cpu_seconds", r#"{"minimum": 0, "maximum": 100000000000}"#),
    ("BudgetRequest", "output_bytes", r#"{"maximum": 9007199254740991}"#),
    ("BudgetRequest", "tokens", r#"{"maximum": 9007199254740991}"#),
    ("McpServerRequest", "name", r#"{"pattern": "^[a-z][a-z0-9-]{0,31}$"}"#),
    ("McpServerRequest", "memory_bytes", r#"{"minimum": 8388608, "maximum": 8589934592}"#),
    ("McpServerRequest", "timeout_secs", r#"{"minimum": 1, "maximum": 3600}"#),
    ("McpServerRequest", "env", ENVIRONMENT),
    ("EraseRequest", "reason", r#"{"maxLength": 500}"#),
    ("PruneRequest", "older_than", r#"{"maximum": 9007199254740991}"#),
    ("SecretRequest", "value", r#"{"minLength": 1, "maxLength": 16384, "pattern": "^[ -~]+$"}"#),
    (
        "SecretRequest",
        "tools",
        r#"{"minItems": 1, "maxItems": 32, "items": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,128}$"}}"#,
    ),
    ("SecretRequest", "hosts", r#"{"minItems": 1, "maxItems": 32}"#),
    ("SecretRequest", "query", r#"{"minLength": 1, "maxLength": 100, "pattern": "^[ -~]+$"}"#),
    ("SessionMessage", "session_id", ID),
    ("SessionMessage", "persona_id", ID),
    ("SessionMessage", "message", r#"{"maxLength": 100000}"#),
    ("SessionMessage", "attachments", r#"{"maxItems": 50}"#),
    ("SessionActionRequest", "session_id", ID),
    ("LlmInvokeRequest", "role", r#"{"enum": ["dialogue", "escalation", "slm", null]}"#),
    ("LlmInvokeRequest", "session_id", ID),
    ("LlmInvokeRequest", "persona_id", ID),
    ("LlmInvokeRequest", "tenant", TENANT),
    (
        "LlmInvokeRequest",
        "messages",
        r#"{"minItems": 1, "maxItems": 200, "items": {"type": "object",
            "required": ["role", "content"], "additionalProperties": false, "properties": {
            "role": {"enum": ["system", "user", "assistant"]},
            "content": {"type": "string", "maxLength": 400000}}}}"#,
    ),
    (
        "LlmInvokeRequest",
        "overrides",
        r#"{"additionalProperties": false, "properties": {
            "model": {"type": "string", "minLength": 1, "maxLength": 200},
            "temperature": {"type": "number", "minimum": 0, "maximum": 2},
            "max_tokens": {"type": "integer", "minimum": 1, "maximum": 131072},
            "kwargs": {"type": "object", "maxProperties": 32}}}"#,
    ),
    (
        "SessionActionRequest",
        "action",
        r#"{"enum": ["summarize", "next_steps", "status_report", "nudge", "pause", "resume", "cancel"]}"#,
    ),
    ("SandboxRequest", "env", ENVIRONMENT),
    ("SandboxRequest", "secrets", SECRETS),
    (
        "SandboxRequest",
        "metadata",
        r#"{"maxProperties": 16, "propertyNames": {"pattern": "^[A-Za-z0-9_.-]{1,64}$"},
            "additionalProperties": {"type": "string", "maxLength": 200}}"#,
    ),
    ("ExecRequest", "env", ENVIRONMENT),
    ("Resolution", "action", r#"{"enum": ["approve", "deny", "discard", "reevaluate", null]}"#),
    ("Resolution", "scope", r#"{"enum": ["once", "session", "rule", null]}"#),
    ("ExecRequest", "argv", r#"{"items": {"type": "string", "pattern": "^[^\\x00]*$"}}"#),
    ("InterpreterRequest", "env", ENVIRONMENT),
    ("RenameRequest", "from", PATH),
    ("RenameRequest", "to", PATH),
    ("CompleteRequest", "cursor", r#"{"maximum": 9007199254740991}"#),
    ("EvaluationRequest", "tenant", TENANT),
    ("EvaluationRequest", "action", ACTION),
    ("EvaluationRequest", "resource", TOOL),
    ("EvaluationRequest", "session_id", ID),
    ("EvaluationRequest", "persona_id", ID),
    ("ReplayRequest", "files", r#"{"additionalProperties": {"type": "string"}}"#),
    ("ReplayRequest", "tenant", TENANT),
    ("ReplayRequest", "tool", TOOL),
    ("ReplayRequest", "limit", r#"{"minimum": 1, "maximum": 1000}"#),
    ("ReplayRequest", "most", r#"{"minimum": 1, "maximum": 50000}"#),
    ("ReplayRequest", "cursor", r#"{"pattern": "^[0-9]{1,18}\\.[0-9]{1,18}$"}"#),
    ("AccessEvaluationRequest", "subject", ENTITY),
    ("AccessEvaluationRequest", "action", NAMED),
    ("AccessEvaluationRequest", "resource", ENTITY),
    ("ExecuteRequest", "code", r#"{"maxLength": 1000000}"#),
    ("CompleteRequest", "code", r#"{"maxLength": 1000000}"#),
];

/// Bodies in which an unknown field is an error.
const CLOSED: &[&str] = &[
    "BudgetRequest",
    "CallRequest",
    "CanvasEvent",
    "CompleteRequest",
    "EraseRequest",
    "ExecRequest",
    "ExecuteRequest",
    "InterpreterRequest",
    "KeyRequest",
    "LlmInvokeRequest",
    "McpServerRequest",
    "PlanChange",
    "PlanRequest",
    "PlanStepChange",
    "PruneRequest",
    "Resolution",
    "RenameRequest",
    "ReplayRequest",
    "SandboxLimits",
    "SandboxRequest",
    "SandboxTimes",
    "SecretRequest",
    "SessionActionRequest",
    "SessionMessage",
    "SignalRequest",
    "TerminalSize",
];

fn parameters(path: &str, operation: &mut Value) {
    let all = operation.get_mut("parameters").and_then(Value::as_array_mut);
    for parameter in all.into_iter().flatten() {
        let (name, place) = (parameter["name"].clone(), parameter["in"].clone());
        let schema = &mut parameter["schema"];
        // An omitted parameter is absent; parameters are never null.
        if let Some(kind) = schema["type"].as_array().and_then(|kinds| kinds.first()).cloned() {
            schema["type"] = kind;
        }
        let bound = match (name.as_str().unwrap_or(""), place.as_str().unwrap_or("")) {
            ("Idempotency-Key", _) => KEY,
            ("path", "query") => PATH,
            ("tool", "query") => TOOL,
            ("name", "path") if path.starts_with("/v1/secrets") => SECRET,
            ("name", "path") => TOOL,
            ("session_id", _) => ID,
            ("tenant", "query") if path == "/v1/usage" => {
                r#"{"pattern": "^([A-Za-z0-9_-][A-Za-z0-9._-]{0,63}|\\*)$"}"#
            }
            ("tenant", "query" | "path") => TENANT,
            ("per", "query") => r#"{"enum": ["day", "hour"]}"#,
            ("by", "query") => r#"{"enum": ["key", "tool", "key,tool"]}"#,
            ("key", "query") => UUID,
            ("from", "query") if path == "/v1/usage" => r#"{"format": "date-time"}"#,
            ("cursor", "query") if AUDIT.contains(&path) => r#"{"pattern": "^[0-9]{1,18}$"}"#,
            ("cursor", "query") if path == "/v1/policy/canary" => "{}",
            ("cursor" | "parent", "query") => UUID,
            ("format", "query") if path == "/v1/calls/{id}/receipt" => {
                r#"{"enum": ["dsse", "json"]}"#
            }
            ("call_id", "query") => UUID,
            ("persona_id", "query") => ID,
            ("kind", "query") if AUDIT.contains(&path) => ENTRIES,
            ("since" | "until", "query") => r#"{"format": "date-time"}"#,
            ("from", "query") if path == "/v1/ledger/consistency" => r#"{"minimum": 1}"#,
            ("state", "query") => STATES,
            ("limit", "query") if path == "/v1/tools" => r#"{"minimum": 1, "maximum": 1000}"#,
            ("limit", "query") if path == "/v1/discovery" => r#"{"minimum": 1, "maximum": 50}"#,
            ("status", "query") if path == "/v1/discovery" => {
                r#"{"enum": ["pending", "searching", "found", "failed", "rejected"]}"#
            }
            ("status", "query") if path == "/v1/tool-catalog" => TOOL_STATUSES,
            ("status", "query") if path == "/v1/plans" => {
                r#"{"enum": ["pending", "in-progress", "paused", "completed", "failed", "cancelled"]}"#
            }
            ("before", "query") if path == "/v1/plans" => UUID,
            ("before", "query") => r#"{"maximum": 4294967295}"#,
            ("step", "path") => r#"{"pattern": "^[A-Za-z0-9_-]{1,64}$"}"#,
            ("kind", "query") if path == "/v1/tool-imports" => {
                r#"{"enum": ["manifest", "openapi"]}"#
            }
            ("limit", "query")
                if ["/v1/artifacts", "/v1/calls", "/v1/holds", "/v1/approvals"].contains(&path)
                    || AUDIT.contains(&path) =>
            {
                r#"{"minimum": 1, "maximum": 200}"#
            }
            ("type", "query") if path.contains("/artifacts") => ARTIFACT_KINDS,
            ("digest", "query") => r#"{"pattern": "^sha256:[0-9a-f]{64}$"}"#,
            ("direction", "query") => r#"{"enum": ["backward", "forward", "both"]}"#,
            ("format", "query") if path.ends_with("/lineage") => r#"{"enum": ["json", "svg"]}"#,
            ("node", "query") => {
                r#"{"pattern": "^call:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"}"#
            }
            ("wait", "query") => r#"{"maximum": 300}"#,
            ("stream", "path") => r#"{"enum": ["stdout", "stderr"]}"#,
            ("id", "path") if UUIDS.iter().any(|of| path.starts_with(of)) => UUID,
            _ => "{}",
        };
        add(schema, bound);
    }
}

const TOOL_STATUSES: &str = r#"{"enum": ["discovered", "proposed", "approved", "installed", "active",
    "disabled", "quarantined", "revoked"]}"#;

const ARTIFACT_KINDS: &str =
    r#"{"enum": ["code", "document", "design", "analysis", "config", "data"]}"#;

/// Paths that list ledger entries.
const AUDIT: [&str; 2] = ["/v1/audit", "/v1/admin/audit/export"];

const ENTRIES: &str = r#"{"enum": ["call", "decision", "approval", "resolution", "tool", "key",
    "secret", "checkpoint-key", "maintenance", "erasure"]}"#;

const STATES: &str = r#"{"enum": ["accepted", "held", "dispatched", "running", "cancelling",
    "finished", "denied", "expired", "cancelled", "outcome_unknown"]}"#;

/// Bodies that are neither JSON nor text are bytes, not lists of numbers.
fn bytes(operation: &mut Value) {
    let request = operation.get_mut("requestBody").and_then(|body| body.get_mut("content"));
    write_bytes(request);
    for response in operation
        .get_mut("responses")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flat_map(|all| all.values_mut())
    {
        write_bytes(response.get_mut("content"));
    }
}

fn write_bytes(content: Option<&mut Value>) {
    for (kind, body) in content.and_then(Value::as_object_mut).into_iter().flatten() {
        let is_text = kind.contains("json") || kind.starts_with("text/");
        if kind == "multipart/form-data" {
            let part = json!({"type": "string", "format": "binary"});
            // Parts are named by paths, which stand in a header.
            let names = json!({"pattern": "^[!#-\\[\\]-~]{1,200}$"});
            body["schema"] = json!({
                "type": "object", "minProperties": 1, "propertyNames": names,
                "additionalProperties": part,
            });
        } else if !is_text {
            body["schema"] = json!({"type": "string", "format": "binary"});
        }
    }
}
