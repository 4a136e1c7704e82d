//! An approval applies to what was approved and to nothing else.

use proptest::prelude::*;
use ringfence_types::{
    Approval, ApprovalId, Arguments, CallId, Change, Condition, Digest, Json, KeyId, PersonaId,
    Predicate, Presented, Reach, SessionId, TenantId, Terms, Test, Timestamp, ToolRef, Vote,
};
use uuid::Uuid;

/// Parts of a call that an approval is checked against, with values of its own.
#[derive(Debug, Clone)]
struct Asks {
    tenant: TenantId,
    call: CallId,
    session: Option<SessionId>,
    tool: Digest,
    args: Json,
    key: KeyId,
    persona: Option<PersonaId>,
    policy: Digest,
    now: i64,
    used: u32,
    is_revoked: bool,
    is_withdrawn: bool,
}

impl Asks {
    fn presented(&self) -> Presented<'_> {
        Presented {
            tenant: &self.tenant,
            call: self.call,
            session: self.session.as_ref(),
            tool: self.tool,
            args: &self.args,
            args_digest: Digest::of_json(&self.args),
            key: self.key,
            persona: self.persona.as_ref(),
            policy: self.policy,
            now: Timestamp::from_micros(self.now),
            used: self.used,
            is_revoked: self.is_revoked,
            is_withdrawn: self.is_withdrawn,
        }
    }
}

fn args(text: &str, amount: i64) -> Json {
    Json::of(&serde_json::json!({"to": text, "amount": amount})).expect("it is valid")
}

prop_compose! {
    fn asks()(
        tenant in "[a-z]{1,8}", call: u128, session in proptest::option::of("[a-z]{1,8}"),
        tool: [u8; 32], to in ".{0,12}", amount: i64, key: u128,
        persona in proptest::option::of("[a-z]{1,8}"), policy: [u8; 32],
        now in 1_000_i64..1_000_000,
    ) -> Asks {
        Asks {
            tenant: tenant.parse().expect("it is valid"),
            call: CallId(Uuid::from_u128(call)),
            session: session.map(|session| session.parse().expect("it is valid")),
            tool: Digest::from_bytes(tool),
            args: args(&to, amount),
            key: KeyId(Uuid::from_u128(key)),
            persona: persona.map(|persona| persona.parse().expect("it is valid")),
            policy: Digest::from_bytes(policy),
            now,
            used: 0,
            is_revoked: false,
            is_withdrawn: false,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Once,
    Session,
    Rule,
}

/// Approval of this kind that applies to exactly this call.
fn approval(asks: &Asks, kind: Kind, uses: u32, lasts: i64) -> Approval {
    let at = Timestamp::from_micros(asks.now);
    let exactly = Arguments::Exactly(Digest::of_json(&asks.args));
    let amount = Json::of(&asks.args.to_value()["amount"]).expect("it is valid");
    let bounds =
        vec![Condition::new("/amount".to_owned(), Test::AtMost(amount)).expect("it is valid")];
    let (reach, args) = match (kind, &asks.session) {
        (Kind::Once, _) => (Reach::Once(asks.call), exactly),
        (Kind::Session, Some(session)) => (Reach::Session(session.clone()), exactly),
        _ => (Reach::Rule, Arguments::Where(Predicate::new(bounds).expect("it is valid"))),
    };
    let vote = Vote {
        by: KeyId(Uuid::nil()),
        label: "boss".to_owned(),
        person: None,
        at,
        shown: Digest::of(b"shown"),
        reason: None,
    };
    Approval {
        id: ApprovalId(Uuid::nil()),
        tenant: asks.tenant.clone(),
        call: asks.call,
        votes: vec![vote],
        tool: ToolRef {
            name: "t".parse().expect("it is valid"),
            version: "1.0.0".to_owned(),
            digest: asks.tool,
        },
        key: asks.key,
        persona: asks.persona.clone(),
        policy: asks.policy,
        terms: Terms { args, reach, expires_at: Timestamp::from_micros(asks.now + lasts), uses },
        given_at: at,
    }
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Once), Just(Kind::Session), Just(Kind::Rule)]
}

/// Changes one part of a call; returns the name of the change that the approval must report.
fn change(asks: &mut Asks, what: usize, other: &Asks, uses: u32, lasts: i64) -> &'static str {
    match what {
        0 => {
            asks.tool = other.tool;
            "tool"
        }
        1 => {
            let amount = asks.args.to_value()["amount"].as_i64().expect("it is valid");
            asks.args = args("another person", amount.saturating_add(1));
            "args"
        }
        2 => {
            asks.policy = other.policy;
            "policy"
        }
        3 => {
            asks.key = other.key;
            "key"
        }
        4 => {
            asks.persona = Some("quite-another".parse().expect("it is valid"));
            "persona"
        }
        5 => {
            asks.now += lasts;
            "expiry"
        }
        6 => {
            asks.used = uses;
            "uses"
        }
        7 => {
            asks.is_revoked = true;
            "revoked"
        }
        8 => {
            asks.is_withdrawn = true;
            "withdrawn"
        }
        _ => {
            asks.tenant = "another-tenant".parse().expect("it is valid");
            "tenant"
        }
    }
}

fn name(change: &Change) -> &'static str {
    match change {
        Change::Tenant => "tenant",
        Change::Reach(_) => "reach",
        Change::Tool { .. } => "tool",
        Change::Args(_) => "args",
        Change::Key => "key",
        Change::Persona => "persona",
        Change::Policy { .. } => "policy",
        Change::Expired(_) => "expiry",
        Change::UsedUp(_) => "uses",
        Change::Revoked => "revoked",
        Change::Withdrawn => "withdrawn",
    }
}

proptest! {
    #[test]
    fn it_applies_to_what_was_approved(
        asks in asks(), kind in kinds(), uses in 1_u32..9, lasts in 1_i64..9,
    ) {
        let approval = approval(&asks, kind, uses, lasts);
        prop_assert_eq!(approval.changes(&asks.presented()), []);
    }

    #[test]
    fn any_change_is_refused_by_name(
        asks in asks(), other in asks(), kind in kinds(), uses in 1_u32..9, lasts in 1_i64..9,
        what in 0_usize..10,
    ) {
        let approval = approval(&asks, kind, uses, lasts);
        let mut changed = asks.clone();
        let expected = change(&mut changed, what, &other, uses, lasts);
        prop_assume!(serde_json::to_string(&changed.args).expect("it is valid") != serde_json::to_string(&asks.args).expect("it is valid") || what != 1);
        let named: Vec<_> = approval.changes(&changed.presented()).iter().map(name).collect();
        prop_assert!(named.contains(&expected), "{expected} is not in {named:?}");
    }

    #[test]
    fn another_call_needs_its_own_yes(asks in asks(), other: u128) {
        let approval = approval(&asks, Kind::Once, 1, 1);
        let mut another = asks.clone();
        another.call = CallId(Uuid::from_u128(other));
        prop_assume!(another.call != asks.call);
        let named: Vec<_> = approval.changes(&another.presented()).iter().map(name).collect();
        prop_assert_eq!(named, ["reach"]);
    }

    #[test]
    fn several_changes_are_all_named(asks in asks(), other in asks()) {
        let approval = approval(&asks, Kind::Once, 1, 1);
        let mut changed = asks.clone();
        let expected: Vec<_> =
            (0..10).map(|what| change(&mut changed, what, &other, 1, 1)).collect();
        let named: Vec<_> = approval.changes(&changed.presented()).iter().map(name).collect();
        for expected in expected.iter().filter(|name| **name != "args") {
            prop_assert!(named.contains(expected), "{expected} is not in {named:?}");
        }
    }
}
