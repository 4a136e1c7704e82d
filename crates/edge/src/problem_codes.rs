//! Every code that a problem can have, with its status and title.
//!
//! One table, so that the documentation lists exactly what can happen.

use http::StatusCode;

/// One code.
#[derive(Debug, PartialEq, Eq)]
pub struct ProblemCode {
    /// Stable, for programs.
    pub code: &'static str,
    /// The status of the answer.
    pub status: StatusCode,
    /// The same for every problem of the code.
    pub title: &'static str,
}

macro_rules! codes {
    ($($name:ident $status:ident $code:literal $title:literal)*) => {
        $(#[doc = $title]
        pub static $name: ProblemCode =
            ProblemCode { code: $code, status: StatusCode::$status, title: $title };)*

        /// All of them, in the order of their status.
        pub static ALL: &[&ProblemCode] = &[$(&$name),*];
    };
}

codes! {
    BODY_MALFORMED BAD_REQUEST "body_malformed" "Malformed JSON body"
    BODY_UNREADABLE BAD_REQUEST "body_unreadable" "Unreadable body"
    QUERY_INVALID BAD_REQUEST "query_invalid" "Invalid query parameter"
    HEADER_INVALID BAD_REQUEST "header_invalid" "Invalid header field"
    IDEMPOTENCY_KEY_INVALID BAD_REQUEST "idempotency_key_invalid" "Invalid idempotency key"
    PROFILE_MISSING BAD_REQUEST "profile_missing" "No model profile"
    KEY_MISSING UNAUTHORIZED "key_missing" "API key required"
    KEY_INVALID UNAUTHORIZED "key_invalid" "Unknown API key"
    KEY_REVOKED UNAUTHORIZED "key_revoked" "API key revoked"
    KEY_EXPIRED UNAUTHORIZED "key_expired" "API key expired"
    SCOPE_MISSING FORBIDDEN "scope_missing" "Missing scope"
    OPERATOR_REQUIRED FORBIDDEN "operator_required" "Operator key required"
    PERSONA_FOREIGN FORBIDDEN "persona_foreign" "Persona not allowed for this key"
    HOST_FOREIGN FORBIDDEN "host_foreign" "`Host` header not allowed"
    ORIGIN_FOREIGN FORBIDDEN "origin_foreign" "Cross-origin request refused"
    POLICY_DENIED FORBIDDEN "policy_denied" "Denied by policy"
    OWN_CALL FORBIDDEN "own_call" "A caller cannot approve their own call"
    POLICY_HELD FORBIDDEN "policy_held" "Held by policy"
    NOT_FOUND NOT_FOUND "not_found" "Not found"
    TOOL_NOT_FOUND NOT_FOUND "tool_not_found" "Tool not found"
    TOOL_VERSION_NOT_FOUND NOT_FOUND "tool_version_not_found" "Tool version not found"
    METHOD_NOT_ALLOWED METHOD_NOT_ALLOWED "method_not_allowed" "Method not allowed"
    BODY_TIMEOUT REQUEST_TIMEOUT "body_timeout" "Request body timeout"
    IDEMPOTENCY_KEY_IN_USE CONFLICT "idempotency_key_in_use" "Call with this idempotency key still running"
    CONFLICT CONFLICT "conflict" "Conflict"
    NOT_HELD CONFLICT "not_held" "Call not held"
    APPROVED_BEFORE CONFLICT "approved_before" "Already approved by this person"
    HOLD_CHANGED CONFLICT "hold_changed" "Held call changed"
    TOOL_NOT_ACTIVE CONFLICT "tool_not_active" "Tool not active"
    TOOL_CHANGED CONFLICT "tool_changed" "Tool changed or removed"
    TOOL_TAKEN CONFLICT "tool_taken" "Tool name and version already exist"
    TOOL_NOT_UPLOADED CONFLICT "tool_not_uploaded" "Tool not registered over the API"
    LAST_ADMIN_KEY CONFLICT "last_admin_key" "Last admin key"
    NOT_FINISHED CONFLICT "not_finished" "Call not finished"
    SANDBOX_PAUSED CONFLICT "sandbox_paused" "Sandbox paused"
    INPUT_BLOCKED CONFLICT "input_blocked" "Program does not read its input"
    SANDBOX_REFUSED CONFLICT "sandbox_refused" "Sandbox operation refused"
    CALL_ERASED GONE "call_erased" "Records of the call erased"
    BODY_TOO_LARGE PAYLOAD_TOO_LARGE "body_too_large" "Body too large"
    MEDIA_TYPE_UNSUPPORTED UNSUPPORTED_MEDIA_TYPE "media_type_unsupported" "Unsupported media type"
    WRONG_ROLE MISDIRECTED_REQUEST "wrong_role" "Wrong role of the server"
    BODY_INVALID UNPROCESSABLE_ENTITY "body_invalid" "Invalid body"
    ARGS_INVALID UNPROCESSABLE_ENTITY "args_invalid" "Invalid arguments"
    TOOL_BROKEN UNPROCESSABLE_ENTITY "tool_broken" "Broken tool"
    IDEMPOTENCY_KEY_REUSED UNPROCESSABLE_ENTITY "idempotency_key_reused" "Idempotency key used for another request"
    PROOF_TOO_LARGE UNPROCESSABLE_ENTITY "proof_too_large" "Proof too large"
    TOOL_INVALID UNPROCESSABLE_ENTITY "tool_invalid" "Invalid tool definition"
    GRANT_INVALID UNPROCESSABLE_ENTITY "grant_invalid" "Grant beyond the request"
    SKILL_INVALID UNPROCESSABLE_ENTITY "skill_invalid" "Invalid skill"
    UPGRADE_REQUIRED UPGRADE_REQUIRED "upgrade_required" "WebSocket required"
    RATE_LIMITED TOO_MANY_REQUESTS "rate_limited" "Rate limit exceeded"
    TOO_MANY_CALLS TOO_MANY_REQUESTS "too_many_calls" "Too many waiting calls"
    TOO_MANY_STREAMS TOO_MANY_REQUESTS "too_many_streams" "Too many event streams"
    TOO_MANY_SANDBOXES TOO_MANY_REQUESTS "too_many_sandboxes" "Too many sandboxes"
    STORAGE_BUDGET TOO_MANY_REQUESTS "storage_budget" "Storage budget exceeded"
    INTERNAL INTERNAL_SERVER_ERROR "internal" "Internal server error"
    SANDBOX_FAILED INTERNAL_SERVER_ERROR "sandbox_failed" "Sandbox set-up failed"
    TRANSFER_ENCODING_UNSUPPORTED NOT_IMPLEMENTED "transfer_encoding_unsupported" "Unsupported transfer coding"
    MODEL_FAILED BAD_GATEWAY "model_failed" "Model server failed"
    OWNER_UNREACHABLE BAD_GATEWAY "owner_unreachable" "Owning process unreachable"
    BUSY SERVICE_UNAVAILABLE "busy" "Server busy"
    CIRCUIT_OPEN SERVICE_UNAVAILABLE "circuit_open" "Tool failing"
    STOPPING SERVICE_UNAVAILABLE "stopping" "Server stopping"
    STORE_UNAVAILABLE SERVICE_UNAVAILABLE "store_unavailable" "Store unavailable"
    STORE_GONE SERVICE_UNAVAILABLE "store_gone" "Database files deleted or replaced"
    ELSEWHERE SERVICE_UNAVAILABLE "elsewhere" "Call under way in another process"
    STORAGE_LOW SERVICE_UNAVAILABLE "storage_low" "Low disk space"
    BUS_UNAVAILABLE SERVICE_UNAVAILABLE "bus_unavailable" "Bus unavailable"
    NO_CONVERSATIONS SERVICE_UNAVAILABLE "no_conversations" "No model profiles"
    POLICY_UNAVAILABLE SERVICE_UNAVAILABLE "policy_unavailable" "Policy unavailable"
    PROOF_NOT_READY SERVICE_UNAVAILABLE "proof_not_ready" "Proof not ready"
    SECRETS_UNAVAILABLE SERVICE_UNAVAILABLE "secrets_unavailable" "Secrets unavailable"
    SANDBOX_UNAVAILABLE SERVICE_UNAVAILABLE "sandbox_unavailable" "Sandboxes unavailable"
    SANDBOX_TIMEOUT SERVICE_UNAVAILABLE "sandbox_timeout" "Sandbox set-up timeout"
    TIMEOUT GATEWAY_TIMEOUT "timeout" "Timeout"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_unique_and_in_the_order_of_their_status() {
        let codes: BTreeSet<_> = ALL.iter().map(|problem| problem.code).collect();
        assert_eq!(codes.len(), ALL.len());
        assert!(ALL.is_sorted_by_key(|problem| problem.status.as_u16()));
    }

    /// `docs/errors.md` has cause and remedy of every code: of problems, and of calls that failed.
    #[test]
    fn every_code_is_explained() {
        let page = include_str!("../../../docs/errors.md");
        let of_problems = ALL.iter().map(|kind| kind.code);
        let of_calls = ringfence_types::ErrorCode::ALL.iter().map(|code| code.as_str());
        let missing: Vec<_> = of_problems
            .chain(of_calls)
            .filter(|code| !page.contains(&format!("`{code}`")))
            .collect();
        assert_eq!(missing, [""; 0]);
    }
}
