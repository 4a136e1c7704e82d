//! An approval is for what was shown.

use std::time::Duration;

use ringfence_engine::{
    Action, ApprovalScope, CallRequest, InvalidTerms, NotResolved, Resolution, Resolved,
    TermsRequest,
};
use ringfence_types::{Condition, Digest, FactKind, Predicate, Test, shown};
use serde_json::json;

use super::{ASK, ASK_AGAIN, after, approve, engine, resolve, result, within};
use crate::support::{Replaced, approver, echo, principal, stand};

fn in_session(text: &str) -> CallRequest {
    let session = Some("s-1".parse().expect("a session"));
    CallRequest { session, ..echo(text) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_shown_must_still_be_what_stands() {
    let dir = tempfile::tempdir().expect("works here");
    let rules = Replaced::new(ASK);
    let engine = engine(dir.path(), &rules).await;
    let (who, boss) = (principal("acme"), approver("acme", 1));
    let held = stand(&engine, &who, echo("hi")).await;
    let answer = |seen: Digest| Resolution { action: approve(), reason: None, shown: Some(seen) };
    let other = engine.resolve(&boss, held.asked.id, answer(Digest::of(b"other"))).await;
    assert!(matches!(other, Err(NotResolved::Changed)), "{other:?}");
    engine.resolve(&boss, held.asked.id, answer(shown(&held))).await.expect("approved");
    after(&engine, &who, held.asked.id, &[FactKind::Finished]).await;
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn votes_under_other_rules_do_not_count_and_the_hold_says_so() {
    let dir = tempfile::tempdir().expect("works here");
    let rules = Replaced::new(ASK);
    let engine = engine(dir.path(), &rules).await;
    let who = principal("acme");
    let id = stand(&engine, &who, echo("two of you")).await.asked.id;
    resolve(&engine, &approver("acme", 1), id, approve()).await.expect("a vote");
    rules.with(ASK_AGAIN);
    let second = resolve(&engine, &approver("acme", 2), id, approve()).await.expect("a vote");
    let Resolved::Waits(call) = second else { panic!("{second:?}") };
    let hold = call.hold().expect("it is held");
    assert_eq!((hold.votes.len(), hold.reasons[0].message.as_str()), (1, "ask again"));
    assert!(!hold.changed.is_empty(), "{hold:?}");
    resolve(&engine, &approver("acme", 1), id, approve()).await.expect("a vote");
    let call = after(&engine, &who, id, &[FactKind::Finished]).await;
    assert_eq!(result(&call), json!({"message": "two of you"}));
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_for_a_session_is_for_its_calls_so_often_under_these_rules() {
    let dir = tempfile::tempdir().expect("works here");
    let rules = Replaced::new(ASK);
    let engine = engine(dir.path(), &rules).await;
    let (who, boss) = (principal("acme"), approver("acme", 1));
    let id = stand(&engine, &who, in_session("hi")).await.asked.id;
    resolve(&engine, &boss, id, within(ApprovalScope::Session, 3)).await.expect("approved");
    after(&engine, &who, id, &[FactKind::Finished]).await;
    let state = async |request| stand(&engine, &who, request).await.state.name();
    assert_eq!(state(in_session("hi")).await, "finished", "the second of three");
    assert_eq!(state(in_session("ho")).await, "held", "other arguments");
    assert_eq!(state(echo("hi")).await, "held", "no session");
    rules.with(ASK_AGAIN);
    let held = stand(&engine, &who, in_session("hi")).await;
    let changed = &held.hold().expect("other rules").changed;
    assert!(changed.iter().any(|change| change.starts_with("the policy is")), "{changed:?}");
    rules.with(ASK);
    assert_eq!(state(in_session("hi")).await, "finished", "the third of three");
    let held = stand(&engine, &who, in_session("hi")).await;
    let changed = &held.hold().expect("used up").changed;
    assert_eq!(*changed, ["the approval was for 3 calls, which were made"]);
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_as_a_rule_has_visible_bounds() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path(), &Replaced::new(ASK)).await;
    let (who, boss) = (principal("acme"), approver("acme", 1));
    let id = stand(&engine, &who, echo("to: ann")).await.asked.id;
    let unbounded = resolve(&engine, &boss, id, within(ApprovalScope::Rule, 9)).await;
    let expected = NotResolved::Terms(InvalidTerms::Unbounded);
    assert_eq!(unbounded.expect_err("refused").to_string(), expected.to_string());
    let no_session = resolve(&engine, &boss, id, within(ApprovalScope::Session, 9)).await;
    assert!(matches!(no_session, Err(NotResolved::Terms(InvalidTerms::NoSession))));
    let action = |prefix: &str| {
        let begins = Condition::new("/text".to_owned(), Test::Prefix(prefix.to_owned()));
        let args = Predicate::new(vec![begins.expect("a condition")]).expect("a predicate");
        let terms = TermsRequest {
            scope: ApprovalScope::Rule,
            args: Some(args),
            expires_in: Some(Duration::from_secs(60)),
            uses: Some(9),
        };
        Action::Approve { terms, edited: None }
    };
    let elsewhere = resolve(&engine, &boss, id, action("from: ")).await;
    assert!(
        matches!(elsewhere, Err(NotResolved::Terms(InvalidTerms::NotMatching))),
        "{elsewhere:?}"
    );
    resolve(&engine, &boss, id, action("to: ")).await.expect("approved");
    after(&engine, &who, id, &[FactKind::Finished]).await;
    let state = async |text| stand(&engine, &who, echo(text)).await.state.name();
    assert_eq!(state("to: bob").await, "finished");
    assert_eq!(state("from: bob").await, "held");
    engine.stop(Duration::from_secs(5)).await;
}
