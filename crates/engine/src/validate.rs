//! Validation of results against the tool's output schema.

use ringfence_registry::Entry;
use ringfence_types::{CallError, ErrorCode, Json, Produced};
use serde_json::json;

/// The result, or an error of the tool if the result violates its schema.
pub(crate) fn output(entry: &Entry, result: Json) -> Produced {
    match entry.check_output(&result) {
        Ok(()) => Produced::Result(result),
        Err(violations) => {
            let first = violations.first().map_or("", |violation| violation.message.as_str());
            let message = format!("Output validation failed for {}: {first}", entry.tool.name);
            let all: Vec<_> = violations
                .iter()
                .map(|v| json!({"pointer": v.pointer, "message": v.message}))
                .collect();
            let details = Json::of(&json!({"errors": all})).ok();
            Produced::Error(CallError { code: ErrorCode::OutputInvalid, message, details })
        }
    }
}
