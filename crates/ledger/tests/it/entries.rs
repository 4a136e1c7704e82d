//! Entries state their subject, and fit.

use ringfence_ledger::{Entry, MAX_ENVELOPE_BYTES, Statement};
use ringfence_types::{About, Digest, Reason, Receipt};

use crate::samples::{PRINTED, RESULT, asked, at, receipt, signer};

fn subjects(entry: &Entry) -> Vec<(String, String)> {
    let statement = Statement::parse(&entry.payload).expect("a statement");
    statement.subject.into_iter().map(|subject| (subject.name, subject.digest.sha256)).collect()
}

#[test]
fn a_call_is_about_what_it_produced_and_without_that_about_its_receipt() {
    let made = subjects(&Entry::call(receipt(1, true)));
    let named = |name: &str, digest: Digest| (name.to_owned(), digest.hex());
    let result = named("result", Digest::of(RESULT.as_bytes()));
    assert_eq!(made, [result, named("stdout", Digest::of(PRINTED))]);
    let denied = receipt(1, false);
    let digest = denied.digest();
    assert_eq!(subjects(&Entry::call(denied)), [named("receipt", digest)]);
}

#[test]
fn a_receipt_that_policy_made_too_long_is_shortened_and_says_so() {
    let mut long = receipt(1, true);
    let reason = Reason { rule: "r".into(), message: "é".repeat(5_000) };
    long.decision.as_mut().expect("a decision").reasons = vec![reason; 40];
    let sealed = signer(1).seal(Entry::call(long)).expect("it fits");
    let kept: Receipt = sealed.predicate().expect("a receipt");
    assert_eq!(kept.decision.expect("a decision").reasons.len(), 16);
    let words = kept.not_observed.last().expect("it says so");
    assert!(words.contains("left out for size"), "{words}");
    let whole: Receipt =
        signer(1).seal(Entry::call(receipt(1, true))).unwrap().predicate().unwrap();
    assert_eq!(whole, receipt(1, true), "the control: a short one is whole");
}

#[test]
fn what_does_not_fit_is_refused_with_its_size() {
    let about = || About::call(&asked(1), at(1));
    let fits = Entry::approval(about(), &"x".repeat(40_000));
    signer(1).seal(fits).expect("it fits");
    let refused = signer(1).seal(Entry::approval(about(), &"x".repeat(60_000))).unwrap_err();
    assert!(refused.bytes > MAX_ENVELOPE_BYTES, "{refused}");
}

#[test]
fn nothing_that_is_said_can_stand_for_whom_it_concerns() {
    let lie = serde_json::json!({"tenant": "other", "at": "2000-01-01T00:00:00Z", "call": null});
    let sealed = signer(1).seal(Entry::approval(About::call(&asked(1), at(1)), &lie)).unwrap();
    let heard: serde_json::Value = sealed.predicate().expect("a predicate");
    assert_eq!(heard["tenant"], "acme");
    assert_eq!(heard["said"], lie);
}
