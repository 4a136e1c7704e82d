//! An exported file: every byte of it counts, and what is wrong is named.

use proptest::prelude::*;
use ringfence_ledger::{Bundle, Flaw, Place, Problem};
use ringfence_types::{Digest, EntryKind, Memoised};
use serde_json::Value;

use crate::samples::{at, call_id, log, signer};

fn verify(text: &[u8]) -> Result<ringfence_ledger::Verified, Flaw> {
    Bundle::verify(text, None)
}

/// The file with one change of its data, written as it would be written.
fn changed(change: impl FnOnce(&mut Value)) -> Flaw {
    let text = log().bundle().render();
    let mut value: Value = serde_json::from_str(&text).unwrap();
    change(&mut value);
    // The form is right, so that it is the content that is found.
    let bundle: Bundle = serde_json::from_value(value).unwrap();
    assert_ne!(bundle.render(), text, "the change changes something");
    verify(bundle.render().as_bytes()).expect_err("a change that is not found")
}

fn list<'a>(value: &'a mut Value, name: &str) -> &'a mut Vec<Value> {
    value[name].as_array_mut().unwrap()
}

#[test]
fn an_untouched_bundle_holds_and_tells_what_it_proves() {
    let log = log();
    let text = log.bundle().render();
    let verified = verify(text.as_bytes()).unwrap();
    let shown: Vec<_> = verified.entries.iter().map(|entry| (entry.index, entry.kind)).collect();
    use EntryKind::{Approval, Call, Decision, Resolution};
    assert_eq!(shown, [(4, Decision), (6, Approval), (7, Resolution), (8, Call)]);
    assert!(verified.entries.iter().all(|entry| entry.about.call == Some(call_id(2))));
    assert_eq!((verified.checkpoint.size, verified.artifacts), (10, Some(2)));
    assert_eq!(verified.key, *signer(2).public());
    Bundle::verify(text.as_bytes(), Some(signer(2).id())).expect("the key that signed");
    let flaw = Bundle::verify(text.as_bytes(), Some(signer(1).id())).unwrap_err();
    assert_eq!(flaw.problem, Problem::Unpinned(signer(1).id()));
}

#[test]
fn every_byte_of_the_file_counts() {
    let text = log().bundle().render().into_bytes();
    for at in 0..text.len() {
        for flip in [0x01, 0x20] {
            let mut bad = text.clone();
            bad[at] ^= flip;
            if let Ok(verified) = verify(&bad) {
                panic!("byte {at} of {} by {flip}: {verified:?}", text.len());
            }
        }
    }
}

#[test]
fn a_file_that_is_cut_or_longer_is_refused() {
    let text = log().bundle().render().into_bytes();
    for length in 0..text.len() {
        assert!(verify(&text[..length]).is_err(), "cut at {length}");
    }
    for more in [&b"\n"[..], b" ", b"{}", b"\0"] {
        assert!(verify(&[&text, more].concat()).is_err(), "{more:?}");
    }
}

#[test]
fn a_foreign_file_a_cut_one_a_reformatted_one_and_a_forged_one_are_told_apart() {
    let problem = |text: &[u8]| verify(text).expect_err("none of them holds").problem;
    let text = log().bundle().render();
    let value: Value = serde_json::from_str(&text).unwrap();
    for foreign in ["", "a letter", "{}", "[1]", "{\"format\":\"other\"}", "{\"format\":"] {
        assert_eq!(problem(foreign.as_bytes()), Problem::NotOurs, "{foreign}");
    }
    for length in [60, text.len() / 2, text.len() - 2] {
        assert_eq!(problem(&text.as_bytes()[..length]), Problem::Cut(length));
    }
    let pretty = serde_json::to_string_pretty(&value).unwrap();
    for reformatted in [pretty.as_str(), text.trim_end(), &format!("{text}\n")] {
        assert_eq!(problem(reformatted.as_bytes()), Problem::Reformatted);
    }
    // A forged one is told as such in whatever text it is written.
    let mut forged = value;
    forged["entries"][1]["envelope"] = forged["entries"][0]["envelope"].clone();
    let forged = serde_json::to_string_pretty(&forged).unwrap();
    assert!(!matches!(problem(forged.as_bytes()), Problem::Reformatted | Problem::Cut(_)));
    let extra = text.replacen('{', "{\"more\":1,", 1);
    assert_eq!(problem(extra.as_bytes()), Problem::Form);
}

#[test]
fn an_entry_that_is_deleted_doubled_or_moved_is_named() {
    let indexes = [4, 6, 7, 8];
    for (at, index) in indexes.into_iter().enumerate() {
        let flaw = changed(|value| drop(list(value, "entries").remove(at)));
        assert_eq!((flaw.place, flaw.problem), (Place::Entry(index), Problem::LeftOut));
        let flaw = changed(|value| {
            let copy = value["entries"][at].clone();
            list(value, "entries").insert(at, copy);
        });
        assert_eq!(flaw.problem, Problem::Unlisted);
    }
    for (at, index) in indexes.into_iter().enumerate().take(3) {
        let flaw = changed(|value| list(value, "entries").swap(at, at + 1));
        assert_eq!((flaw.place, flaw.problem), (Place::Entry(index), Problem::Unlisted));
    }
}

#[test]
fn what_belongs_to_an_entry_cannot_be_exchanged() {
    for field in ["index", "proof", "envelope"] {
        let flaw = changed(|value| {
            let other = value["entries"][1][field].clone();
            value["entries"][0][field] = other;
        });
        assert!(matches!(flaw.place, Place::Entry(4 | 6)), "{field}: {flaw}");
    }
}

#[test]
fn keys_and_artifacts_are_bound_as_well() {
    let flaw = changed(|value| drop(list(value, "keys").pop()));
    assert!(matches!(flaw.place, Place::Checkpoint(10) | Place::Entry(_)), "{flaw}");
    let flaw = changed(|value| drop(list(value, "keys").remove(0)));
    assert_eq!(flaw.place, Place::Entry(0));
    let flaw = changed(|value| drop(list(value, "artifacts").remove(0)));
    let first = Digest::of(crate::samples::RESULT.as_bytes());
    assert_eq!((flaw.place, flaw.problem), (Place::Artifact(first), Problem::LeftOut));
    let flaw = changed(|value| value["artifacts"][0]["bytes"] = "b3RoZXI=".into());
    assert_eq!((flaw.place, flaw.problem), (Place::Artifact(first), Problem::Bytes));
    let flaw = changed(|value| value["artifacts"] = Value::Null);
    assert_eq!(flaw.problem, Problem::LeftOut);
    let flaw = changed(|value| value["manifest"] = Value::Null);
    assert_eq!((flaw.place, flaw.problem), (Place::Manifest, Problem::Form));
}

#[test]
fn an_older_checkpoint_cannot_stand_in_for_the_newest() {
    let older = log().checkpoints[1].clone();
    let flaw = changed(|value| value["checkpoint"] = older.into());
    assert_eq!(flaw.place, Place::Entry(0), "the proofs are not for it: {flaw}");
}

#[test]
fn a_call_that_was_given_a_result_is_proved_with_the_call_that_ran_or_not_at_all() {
    let (ran, denied) = (log().rows[3].sealed.clone(), log().rows[9].sealed.clone());
    let memoised = Memoised { call: call_id(1), entry: 3, leaf: ran.leaf, ended_at: at(12) };
    let bundle = |memoised: Memoised, entries: &[u64]| {
        let log = log().given_again(memoised);
        let bundle = log.bundle_of(4, |row| entries.contains(&row.index), None);
        verify(bundle.render().as_bytes())
    };
    let shown = bundle(memoised, &[3, 10]).unwrap().entries;
    let shown: Vec<_> = shown.iter().map(|entry| (entry.index, entry.about.call)).collect();
    assert_eq!(shown, [(3, Some(call_id(1))), (10, Some(call_id(4)))]);

    let missing = bundle(memoised, &[10]).unwrap_err();
    assert_eq!((missing.place, missing.problem), (Place::Entry(10), Problem::Original(3)));
    for other in [
        Memoised { call: call_id(2), ..memoised },
        Memoised { leaf: denied.leaf, ..memoised },
        // It stands there, and it gave something else.
        Memoised { call: call_id(3), entry: 9, leaf: denied.leaf, ..memoised },
    ] {
        let flaw = bundle(other, &[3, 9, 10]).unwrap_err();
        assert_eq!(flaw.problem, Problem::Original(other.entry), "{other:?}");
    }
    let foreign = bundle(memoised, &[3, 9, 10]).unwrap_err();
    assert_eq!((foreign.place, foreign.problem), (Place::Entry(9), Problem::Foreign));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_other_byte_anywhere_goes_unnoticed(at in any::<prop::sample::Index>(), byte: u8) {
        let text = log().bundle().render().into_bytes();
        let mut bad = text.clone();
        let at = at.index(bad.len());
        prop_assume!(bad[at] != byte);
        bad[at] = byte;
        prop_assert!(verify(&bad).is_err());
    }

    #[test]
    fn no_bytes_make_us_panic(bytes: Vec<u8>) {
        prop_assert!(verify(&bytes).is_err());
    }
}
