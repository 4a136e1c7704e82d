//! Scopes of operations. Handlers check them by type (`May<Read>`), which the document cannot see;
//! a test calls every operation with every scope but the one written here.

use ringfence_types::Scope::{self, Admin, Approve, Call, Read};
use serde_json::{Value, json};

/// Operations whose scope differs from that of their method.
const SPECIAL: &[(&str, &str, &[Scope])] = &[
    ("post", "/v1/keys", &[Admin]),
    ("get", "/v1/keys", &[Admin]),
    ("delete", "/v1/keys/{id}", &[Admin]),
    ("get", "/v1/secrets", &[Admin]),
    ("put", "/v1/secrets/{name}", &[Admin]),
    ("delete", "/v1/secrets/{name}", &[Admin]),
    ("post", "/v1/admin/secrets/rotate", &[Admin]),
    ("get", "/v1/budgets", &[Admin]),
    ("put", "/v1/budgets", &[Admin]),
    ("delete", "/v1/budgets", &[Admin]),
    ("put", "/v1/tool-catalog/{name}", &[Admin]),
    ("get", "/v1/config", &[Admin]),
    ("get", "/v1/processes", &[Admin]),
    ("get", "/v1/mcp/servers", &[Admin]),
    ("post", "/v1/mcp/servers", &[Admin]),
    ("get", "/v1/mcp/servers/{name}", &[Admin]),
    ("delete", "/v1/mcp/servers/{name}", &[Admin]),
    ("post", "/v1/mcp/servers/{name}/restart", &[Admin]),
    ("get", "/v1/admin/audit/export", &[Admin]),
    ("get", "/v1/admin/dlq", &[Admin]),
    ("get", "/v1/admin/dlq/{topic}", &[Admin]),
    ("delete", "/v1/admin/dlq/{topic}", &[Admin]),
    ("delete", "/v1/admin/dlq/{topic}/{id}", &[Admin]),
    ("post", "/v1/admin/dlq/{topic}/{id}/reprocess", &[Admin]),
    ("post", "/v1/ledger/rotate", &[Admin]),
    ("post", "/v1/calls/{id}/erase", &[Admin]),
    ("post", "/v1/sessions/{session_id}/erase", &[Admin]),
    ("get", "/v1/retention", &[Admin]),
    ("post", "/v1/retention/prune", &[Admin]),
    ("get", "/v1/policy/status", &[Admin]),
    ("get", "/v1/policy/canary", &[Admin]),
    ("post", "/v1/policy/replay", &[Admin]),
    ("post", "/skills/register", &[Admin]),
    ("delete", "/skills/{id}", &[Admin]),
    ("get", "/v1/tools/{name}", &[Read, Approve]),
    ("get", "/v1/tools/{name}/lifecycle", &[Read, Approve]),
    ("get", "/v1/tools/{name}/diff", &[Read, Approve]),
    ("post", "/v1/tool-imports", &[Admin]),
    ("delete", "/v1/tools/{name}/data", &[Admin]),
    ("post", "/v1/discovery/{id}/reject", &[Admin]),
    ("post", "/v1/tools/{name}/approve", &[Admin]),
    ("post", "/v1/tools/{name}/grant", &[Admin]),
    ("post", "/v1/tools/{name}/enable", &[Admin]),
    ("post", "/v1/tools/{name}/disable", &[Admin]),
    ("post", "/v1/tools/{name}/quarantine", &[Admin]),
    ("post", "/v1/tools/{name}/revoke", &[Admin]),
    ("get", "/v1/holds", &[Read, Approve]),
    ("get", "/v1/holds/{id}", &[Read, Approve]),
    ("post", "/v1/holds/{id}/resolve", &[Approve]),
    ("post", "/v1/policy/requeue/{id}/resolve", &[Approve]),
    ("get", "/v1/requeue", &[Read, Approve]),
    ("post", "/v1/requeue/{id}/resolve", &[Approve]),
    ("delete", "/v1/requeue/{id}", &[Approve]),
    ("get", "/v1/approvals", &[Read, Approve]),
    ("get", "/v1/approvals/{id}", &[Read, Approve]),
    ("delete", "/v1/approvals/{id}", &[Approve]),
    ("get", "/v1/sandboxes/{id}/exec/{exec}/terminal", &[Call]),
    ("get", "/v1/sandboxes/{id}/interpreters/{interpreter}/variables", &[Call]),
];

/// Scopes of which a key needs one: `read` for reading, `call` for everything else.
fn needed(method: &str, path: &str) -> &'static [Scope] {
    let special = SPECIAL.iter().find(|(verb, place, _)| (*verb, *place) == (method, path));
    match special {
        Some((_, _, scopes)) => scopes,
        None if method == "get" => &[Read],
        None => &[Call],
    }
}

/// Writes the scope of an operation: as its security requirement, and at the end of its
/// description.
pub(super) fn write(method: &str, path: &str, operation: &mut Value) {
    let scopes = needed(method, path);
    operation["security"] = scopes.iter().map(|scope| json!({"key": [scope.name()]})).collect();
    let names: Vec<_> = scopes.iter().map(|scope| format!("`{scope}`")).collect();
    let sentence = format!("Needs a key with scope {}.", names.join(" or "));
    let description = match operation["description"].as_str().filter(|text| !text.is_empty()) {
        Some(before) => format!("{before}\n\n{sentence}"),
        None => sentence,
    };
    operation["description"] = description.into();
}
