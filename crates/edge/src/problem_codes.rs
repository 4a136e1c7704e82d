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
    BODY_MALFORMED BAD_REQUEST "body_malformed" "The body is not JSON as we accept it"
    BODY_UNREADABLE BAD_REQUEST "body_unreadable" "The body could not be read"
    QUERY_INVALID BAD_REQUEST "query_invalid" "A query parameter is not valid"
    HEADER_INVALID BAD_REQUEST "header_invalid" "A header field is not valid"
    IDEMPOTENCY_KEY_INVALID BAD_REQUEST "idempotency_key_invalid" "The idempotency key is not valid"
    KEY_MISSING UNAUTHORIZED "key_missing" "A key is required"
    KEY_INVALID UNAUTHORIZED "key_invalid" "The key is not known"
    KEY_REVOKED UNAUTHORIZED "key_revoked" "The key was revoked"
    KEY_EXPIRED UNAUTHORIZED "key_expired" "The key has expired"
    SCOPE_MISSING FORBIDDEN "scope_missing" "The key does not have the scope"
    OPERATOR_REQUIRED FORBIDDEN "operator_required" "Only a key of the operator may do this"
    PERSONA_FOREIGN FORBIDDEN "persona_foreign" "The key may not act for this persona"
    HOST_FOREIGN FORBIDDEN "host_foreign" "The server is not called by this name"
    ORIGIN_FOREIGN FORBIDDEN "origin_foreign" "Pages of other origins may not ask"
    POLICY_DENIED FORBIDDEN "policy_denied" "Policy does not allow it"
    OWN_CALL FORBIDDEN "own_call" "Whoever made a call cannot approve it"
    POLICY_HELD FORBIDDEN "policy_held" "Policy wants a person to decide"
    NOT_FOUND NOT_FOUND "not_found" "There is no such thing"
    TOOL_NOT_FOUND NOT_FOUND "tool_not_found" "There is no such tool"
    TOOL_VERSION_NOT_FOUND NOT_FOUND "tool_version_not_found" "The tool has no such version"
    METHOD_NOT_ALLOWED METHOD_NOT_ALLOWED "method_not_allowed" "The path does not know the method"
    BODY_TIMEOUT REQUEST_TIMEOUT "body_timeout" "The body took too long"
    IDEMPOTENCY_KEY_IN_USE CONFLICT "idempotency_key_in_use" "The call with this key has not ended"
    CONFLICT CONFLICT "conflict" "Something else happened in between"
    NOT_HELD CONFLICT "not_held" "The call is not held"
    APPROVED_BEFORE CONFLICT "approved_before" "One person counts once"
    HOLD_CHANGED CONFLICT "hold_changed" "The call is not what was shown any more"
    TOOL_CHANGED CONFLICT "tool_changed" "The tool was changed or removed"
    TOOL_TAKEN CONFLICT "tool_taken" "The name and version are taken"
    TOOL_NOT_UPLOADED CONFLICT "tool_not_uploaded" "The tool was not registered over the API"
    LAST_ADMIN_KEY CONFLICT "last_admin_key" "This is the last key that can make keys"
    NOT_FINISHED CONFLICT "not_finished" "The call has not ended"
    SANDBOX_PAUSED CONFLICT "sandbox_paused" "The sandbox is paused"
    INPUT_BLOCKED CONFLICT "input_blocked" "The program does not read its input"
    SANDBOX_REFUSED CONFLICT "sandbox_refused" "The sandbox could not do it"
    BODY_TOO_LARGE PAYLOAD_TOO_LARGE "body_too_large" "The body is too large"
    MEDIA_TYPE_UNSUPPORTED UNSUPPORTED_MEDIA_TYPE "media_type_unsupported" "The body is of the wrong type"
    BODY_INVALID UNPROCESSABLE_ENTITY "body_invalid" "Fields of the body are not valid"
    ARGS_INVALID UNPROCESSABLE_ENTITY "args_invalid" "The arguments do not fit the tool"
    TOOL_BROKEN UNPROCESSABLE_ENTITY "tool_broken" "The tool is broken"
    IDEMPOTENCY_KEY_REUSED UNPROCESSABLE_ENTITY "idempotency_key_reused" "The key was used for another request"
    PROOF_TOO_LARGE UNPROCESSABLE_ENTITY "proof_too_large" "There is too much for one file"
    SKILL_INVALID UNPROCESSABLE_ENTITY "skill_invalid" "The skill cannot be registered"
    UPGRADE_REQUIRED UPGRADE_REQUIRED "upgrade_required" "The path is reached by a WebSocket"
    RATE_LIMITED TOO_MANY_REQUESTS "rate_limited" "The key makes too many requests"
    TOO_MANY_CALLS TOO_MANY_REQUESTS "too_many_calls" "Too many calls are waiting"
    TOO_MANY_STREAMS TOO_MANY_REQUESTS "too_many_streams" "The key has too many event streams"
    TOO_MANY_SANDBOXES TOO_MANY_REQUESTS "too_many_sandboxes" "There are too many sandboxes"
    STORAGE_BUDGET TOO_MANY_REQUESTS "storage_budget" "The tenant had too much stored in the last hour"
    INTERNAL INTERNAL_SERVER_ERROR "internal" "We failed"
    SANDBOX_FAILED INTERNAL_SERVER_ERROR "sandbox_failed" "The sandbox could not be made"
    TRANSFER_ENCODING_UNSUPPORTED NOT_IMPLEMENTED "transfer_encoding_unsupported" "The transfer coding is not supported"
    BUSY SERVICE_UNAVAILABLE "busy" "Too much is waiting"
    STOPPING SERVICE_UNAVAILABLE "stopping" "The server is stopping"
    STORE_UNAVAILABLE SERVICE_UNAVAILABLE "store_unavailable" "The store does not answer"
    STORE_GONE SERVICE_UNAVAILABLE "store_gone" "The database was deleted or replaced under the server"
    STORAGE_LOW SERVICE_UNAVAILABLE "storage_low" "Little space is left on the server's disk"
    POLICY_UNAVAILABLE SERVICE_UNAVAILABLE "policy_unavailable" "The policy does not answer"
    PROOF_NOT_READY SERVICE_UNAVAILABLE "proof_not_ready" "No checkpoint covers it yet"
    SANDBOX_UNAVAILABLE SERVICE_UNAVAILABLE "sandbox_unavailable" "No sandbox could be had"
    SANDBOX_TIMEOUT SERVICE_UNAVAILABLE "sandbox_timeout" "The sandbox was not ready in time"
    TIMEOUT GATEWAY_TIMEOUT "timeout" "The answer took too long"
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
}
