//! Calls that wait for people, and what people do with them.

mod approving;
mod binding;
mod racing;
mod revoking;
mod waiting;

use std::{path::Path, sync::Arc, time::Duration};

use ringfence_engine::{
    Action, ApprovalScope, Engine, NotResolved, Resolution, Resolved, TermsRequest,
};
use ringfence_testkit::Plane;
use ringfence_types::{Call, CallId, FactKind, Principal, Produced, State};
use serde_json::Value;

use crate::support::{Replaced, engine_of};

/// Every call waits for a person; those whose text begins with `two` for two.
pub(super) const ASK: &str = r#"
package ringfence

default decision := {"decision": "deny", "reasons": []}

decision := {"decision": "allow", "reasons": [{"rule": "approved", "message": "by a person"}]} if {
    input.approval != null
} else := {"decision": "hold", "reasons": [{"rule": "two", "message": "two people"}], "approvals": 2} if {
    startswith(input.args.text, "two")
} else := {"decision": "hold", "reasons": [{"rule": "ask", "message": "ask a person"}]}
"#;

/// The same rules in other words.
pub(super) const ASK_AGAIN: &str = r#"
package ringfence

decision := {"decision": "allow", "reasons": []} if {
    input.approval != null
} else := {"decision": "hold", "reasons": [{"rule": "ask", "message": "ask again"}], "approvals": 2}
"#;

pub(super) const ALLOW: &str =
    "package ringfence\n\ndecision := {\"decision\": \"allow\", \"reasons\": []}\n";

pub(super) const DENY: &str = r#"
package ringfence

decision := {"decision": "deny", "reasons": [{"rule": "never", "message": "not any more"}]}
"#;

pub(super) async fn engine(dir: &Path, rules: &Arc<Replaced>) -> Plane {
    engine_of(dir, rules.clone(), |_| {}).await
}

pub(crate) fn approve() -> Action {
    Action::Approve { terms: TermsRequest::default(), edited: None }
}

pub(super) fn within(scope: ApprovalScope, uses: u32) -> Action {
    let terms = TermsRequest { scope, uses: Some(uses), ..TermsRequest::default() };
    Action::Approve { terms, edited: None }
}

pub(crate) async fn resolve(
    engine: &Engine,
    who: &Principal,
    id: CallId,
    action: Action,
) -> Result<Resolved, NotResolved> {
    let reason = Some("because".to_owned());
    engine.resolve(who, id, Resolution { action, reason, shown: None }).await
}

/// Waits until the call has a fact of one of these kinds, and says how it stands.
pub(crate) async fn after(
    engine: &Engine,
    who: &Principal,
    id: CallId,
    kinds: &[FactKind],
) -> Arc<Call> {
    let mut follow = engine.follow(who, Some(id), None);
    let found = async {
        loop {
            let (_, fact) = follow.next().await.expect("works here");
            if kinds.contains(&fact.kind) {
                return;
            }
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), found).await;
    let call = engine.get(who, id).await.expect("works here").expect("it is there");
    assert!(waited.is_ok(), "none of {kinds:?}: {:?}", call.state);
    call
}

/// Result of the call.
pub(super) fn result(call: &Call) -> Value {
    match &call.state {
        State::Finished(finished) => match &finished.produced {
            Produced::Result(result) => result.to_value(),
            Produced::Error(error) => panic!("{}: {}", error.code, error.message),
        },
        other => panic!("{other:?}"),
    }
}
