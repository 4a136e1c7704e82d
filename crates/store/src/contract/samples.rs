//! Calls and keys to put into a store, for its contract and for measuring it.

use std::{sync::Arc, time::Duration};

use ringfence_types::{
    About, Approval, ApprovalId, Arguments, Asked, Bytes, Call, CallId, Decision, Digest,
    EntryKind, Fact, FactKind, Finished, Hold, Idempotency, Isolation, Json, KeyId, Layer,
    LayerState, Layers, Outcome, Produced, Reach, Reason, Receipt, ReceiptDetails, Scope, Scopes,
    Sealed, State, Stream, TenantId, Terms, Timestamp, ToolRef, Truncated, Usage, Verdict, Vote,
    shown,
};
use uuid::Uuid;

use crate::{Key, NewDecision, Record, Version};

/// 2026-01-01T00:00:00Z, when every sample happens.
pub const AT: i64 = 1_767_225_600_000_000;

/// A tenant that no other test has.
pub fn tenant() -> TenantId {
    Uuid::now_v7().to_string().parse().expect("a UUID is a valid tenant")
}

/// A call that was just accepted.
pub fn accepted(tenant: &TenantId) -> Call {
    let args =
        Json::parse(br#"{"text": "What is kept must be found.", "most": 20000000000000001}"#)
            .expect("valid JSON");
    Call {
        asked: Asked {
            id: CallId(Uuid::now_v7()),
            tenant: tenant.clone(),
            key: KeyId(Uuid::now_v7()),
            scopes: Scopes::from(vec![Scope::Call]),
            persona: Some("reader".parse().expect("a valid persona")),
            session: None,
            tool: tool("text.count"),
            pure: true,
            args_digest: Digest::of_json(&args),
            inputs_hash: Digest::of(b"inputs").hex(),
            args,
            metadata: Json::empty_object(),
            idempotency: None,
            fresh: false,
            trace_id: "0123456789abcdef0123456789abcdef".to_owned(),
            trace_parent: None,
            trace_state: None,
            cause: None,
            taint: Vec::new(),
            accepted_at: Timestamp::from_micros(AT),
        },
        edited: None,
        decision: None,
        state: State::Accepted,
        changed_at: Timestamp::from_micros(AT),
    }
}

/// The same call, some steps on.
#[must_use]
pub fn in_state(call: &Call, state: State) -> Call {
    let decision = Some(decision());
    let changed_at = call.changed_at.after(Duration::from_millis(3));
    Call { asked: call.asked.clone(), edited: None, decision, state, changed_at }
}

/// The same call with an idempotency key.
#[must_use]
pub fn once(mut call: Call, key: KeyId, idempotency_key: &str) -> Call {
    call.asked.key = key;
    let fingerprint = call.asked.args_digest;
    call.asked.idempotency = Some(Idempotency { key: idempotency_key.to_owned(), fingerprint });
    call
}

/// A tool of this name.
pub fn tool(name: &str) -> ToolRef {
    ToolRef {
        name: name.parse().expect("a valid tool name"),
        version: "1.2.3".to_owned(),
        digest: Digest::of(name.as_bytes()),
    }
}

fn decision() -> Decision {
    Decision {
        verdict: Verdict::Allow,
        reasons: vec![Reason { rule: "tools.allow".into(), message: "harmless".into() }],
        obligations: ringfence_types::Obligations::default(),
        approvals: None,
        approval: None,
        engine: "rego".into(),
        policy: Digest::of(b"policy"),
        input: Digest::of(b"input"),
        fail_open: false,
    }
}

/// The end of a call that ran, with a result.
pub fn finished() -> State {
    let layers = [Layer::UserNamespace, Layer::PidNamespace, Layer::Seccomp, Layer::Landlock]
        .map(|layer| (layer, LayerState::Active("yes".into())));
    State::Finished(Box::new(Finished {
        produced: Produced::Result(
            Json::parse(br#"{"words":6,"exact":123456789012345678901234567890}"#)
                .expect("valid JSON"),
        ),
        true_result: None,
        outputs_hash: Digest::of(b"outputs").hex(),
        outcome: Some(Outcome::Exited { code: 0 }),
        stdout: Stream {
            length: 3000,
            digest: Some(Digest::of(b"stdout")),
            truncated: Some(Truncated { at: 1000, dropped: 1000 }),
        },
        stderr: Stream::default(),
        usage: Some(Usage { memory_peak: Some(Bytes::mib(9)), ..Usage::default() }),
        isolation: Some(Isolation::Zygote),
        layers: Some(Layers(layers.into())),
        files: None,
        started_at: Timestamp::from_micros(AT),
        duration: Duration::from_micros(1234),
        memoised: None,
        tokens: None,
    }))
}

/// An entry of the ledger that says so. It is not signed: the store takes what it is given.
pub fn sealed<T: serde::Serialize>(kind: EntryKind, about: About, predicate: &T) -> Sealed {
    let payload = serde_json::json!({ "predicateType": kind, "predicate": predicate }).to_string();
    let leaf = Digest::of(Uuid::now_v7().as_bytes());
    Sealed { kind, about, payload, signature: Some([7; 64]), signer: Digest::of(b"signer"), leaf }
}

/// The entry of a call that came to its end; none before.
pub fn ending(call: &Call) -> Option<Sealed> {
    let receipt = Receipt::of(call, ReceiptDetails::default())?;
    Some(sealed(EntryKind::Call, About::call(&call.asked, call.changed_at), &receipt))
}

/// A step that says one thing about the call, with its entry if it is the last.
pub fn record(call: &Call, seen: Option<Version>) -> Record {
    let facts = vec![fact(call, FactKind::of_state(&call.state))];
    Record {
        call: Arc::new(call.clone()),
        seen,
        facts,
        entries: ending(call).into_iter().collect(),
        blobs: Vec::new(),
        session_events: Vec::new(),
        approval: None,
        spends: None,
        decisions: Vec::new(),
        rewrite: false,
        artifacts: Vec::new(),
        edges: Vec::new(),
        memo: None,
    }
}

/// A hold without a decision.
pub fn held() -> State {
    let at = Timestamp::from_micros(AT);
    State::Held(Box::new(Hold::new(Vec::new(), at, at.after(Duration::from_secs(60)), 1)))
}

/// An approval of calls like this one, for as many as `uses`, until a minute after [`AT`].
pub fn approval(call: &Call, uses: u32) -> Approval {
    let at = Timestamp::from_micros(AT);
    let vote = Vote {
        by: KeyId(Uuid::now_v7()),
        label: "boss".to_owned(),
        person: Some("ann".parse().expect("a valid person")),
        at,
        shown: shown(call),
        reason: None,
    };
    Approval {
        id: ApprovalId(Uuid::now_v7()),
        tenant: call.asked.tenant.clone(),
        call: call.asked.id,
        votes: vec![vote],
        tool: call.asked.tool.clone(),
        key: call.asked.key,
        persona: call.asked.persona.clone(),
        policy: Digest::of(b"policy"),
        terms: Terms {
            args: Arguments::Exactly(call.args_digest()),
            reach: Reach::Rule,
            expires_at: at.after(Duration::from_secs(60)),
            uses,
        },
        given_at: at,
    }
}

/// A decision about a call, and the document that was judged.
pub fn new_decision(call: &Call, at: i64) -> NewDecision {
    let input = format!(r#"{{"args":{},"tenant":"{}"}}"#, call.asked.args, call.asked.tenant);
    NewDecision { at: Timestamp::from_micros(at), decision: decision(), input }
}

/// A fact about a call.
pub fn fact(call: &Call, kind: FactKind) -> Fact {
    let data = Json::parse(br#"{"n":1}"#).expect("valid JSON");
    Fact { kind, call: call.asked.id, at: call.changed_at, data }
}

/// An entry about a key.
pub fn about_key(key: &Key) -> Sealed {
    let about = About::tenant(key.tenant.clone(), key.created_at);
    sealed(EntryKind::Key, about, &key.label)
}

/// A key of a tenant.
pub fn key(tenant: &TenantId, secret: &str) -> Key {
    Key {
        id: KeyId(Uuid::now_v7()),
        tenant: tenant.clone(),
        persona: Some("writer".parse().expect("a valid persona")),
        person: Some("ann".parse().expect("a valid person")),
        label: "for the contract".to_owned(),
        prefix: "rf_abc".to_owned(),
        secret: Digest::of(format!("{tenant} {secret}").as_bytes()),
        scopes: Scopes::from(vec![Scope::Read, Scope::Call]),
        created_at: Timestamp::from_micros(AT),
        created_by: Some(KeyId(Uuid::now_v7())),
        expires_at: Some(Timestamp::from_micros(AT + 1)),
        revoked_at: None,
        last_used_at: None,
    }
}
