//! Local policy of `ringfence run`: the user of the command line has decided already.
//!
//! Permits for programs that no server runs come from here, so that a sandbox asks for one in every
//! case and there is still no way to make one but [`decide`](crate::decide).

use async_trait::async_trait;
use futures_util::FutureExt;
use ringfence_types::{
    CallId, Digest, KeyId, Obligations, Principal, Reason, Scopes, Timestamp, ToolName, Verdict,
};

use crate::{Action, Answer, Decided, Engine, Input, Permit, ToolFacts, Unavailable, decide};

/// Rules with one line: everything is allowed. A server never loads it.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllowAll;

#[async_trait]
impl Engine for AllowAll {
    fn name(&self) -> &str {
        "allow_all"
    }

    fn revision(&self) -> Digest {
        Digest::of(b"allow_all")
    }

    async fn evaluate(&self, _input: &Input) -> Result<Answer, Unavailable> {
        let message = "a program of the user who started it, outside any server".to_owned();
        Ok(Answer {
            verdict: Verdict::Allow,
            reasons: vec![Reason { rule: "local".to_owned(), message }],
            obligations: Obligations::default(),
            approvals: None,
            policy: self.revision(),
        })
    }
}

/// A permit for one program that runs outside any server: `ringfence run`, a self-test, a test.
pub fn local_permit() -> Permit {
    let (name, tenant) = ("local".parse::<ToolName>(), "local".parse());
    let who = Principal {
        key: KeyId(uuid::Uuid::nil()),
        tenant: tenant.expect("our own name is valid"),
        persona: None,
        scopes: Scopes::default(),
        label: "local".to_owned(),
        person: None,
    };
    let about = ToolFacts::named(name.expect("our own name is valid"), env!("CARGO_PKG_VERSION"));
    let (at, call) = (Timestamp::from_micros(0), CallId(uuid::Uuid::nil()));
    let input = Input::about(Action::ToolExecute, &who, about, at, call);
    let decided = decide(&AllowAll, &input).now_or_never();
    match decided.expect("this engine waits for nothing") {
        Decided::Allow(permit, _) => permit,
        Decided::Hold(_) | Decided::Deny(_) => unreachable!("this engine allows everything"),
    }
}
