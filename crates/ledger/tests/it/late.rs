//! A signature that comes later is the one that would have been made at once, and is made only for what
//! stands under a checkpoint of the same key.

use ringfence_ledger::{Bundle, Entry, Flaw, Place, Row, Verified, merkle};
use ringfence_types::EntryKind;

use crate::samples::{Log, call_id, log, receipt, signer};

/// The last call of the log, which the second key signs, and its proof.
fn last(log: &Log) -> (Row, Vec<ringfence_types::Digest>) {
    let row = log.rows.last().unwrap().clone();
    let (tree, tiles) = log.grown();
    let proof = merkle::inclusion(&tiles, row.index, tree.size()).unwrap();
    (row, proof)
}

#[test]
fn a_late_signature_is_the_one_that_would_have_been_made_at_once() {
    let log = log();
    let (Row { index, sealed }, proof) = last(&log);
    let own = signer(2).own(log.checkpoints.last().unwrap()).expect("it is by this key");
    let late = signer(2).sign_proved(&own, index, &sealed.payload, &proof).expect("it is under it");
    assert_eq!(Some(late), sealed.signature);
    let bare = signer(2).prepare_step(Entry::call(receipt(3, false))).unwrap();
    assert_eq!((bare.signature, bare.leaf), (None, sealed.leaf));
}

#[test]
fn what_was_changed_or_moved_since_its_checkpoint_is_not_signed() {
    let log = log();
    let (Row { index, sealed }, proof) = last(&log);
    let own = signer(2).own(log.checkpoints.last().unwrap()).unwrap();
    let changed = sealed.payload.replace("denied", "finished");
    assert_ne!(changed, sealed.payload);
    let sign = |index, payload: &str, proof| signer(2).sign_proved(&own, index, payload, proof);
    sign(index, &changed, &proof).expect_err("another statement");
    sign(index - 1, &sealed.payload, &proof).expect_err("another place");
    sign(index, &sealed.payload, &proof[1..]).expect_err("another proof");
}

#[test]
fn a_checkpoint_of_another_key_or_with_another_byte_vouches_for_nothing() {
    let log = log();
    let note = log.checkpoints.last().unwrap();
    assert!(signer(1).own(note).is_none());
    assert!(signer(2).own(&note.replacen("10\n", "11\n", 1)).is_none());
    assert!(signer(2).own(note).is_some(), "the control");
}

#[test]
fn only_the_end_of_a_call_is_kept_without_a_signature() {
    let log = log();
    for row in &log.rows {
        let Row { sealed, .. } = row;
        let entry = Entry {
            kind: sealed.kind,
            about: sealed.about.clone(),
            payload: sealed.payload.clone(),
        };
        let is_bare = signer(1).prepare_step(entry).unwrap().signature.is_none();
        assert_eq!(is_bare, sealed.kind == EntryKind::Call);
    }
}

/// A file with one entry about a call, signed by this key.
fn signed_by(log: &Log, index: u64, key: u8) -> Result<Verified, Flaw> {
    let mut rows = log.rows.clone();
    let Row { sealed, .. } = rows.iter_mut().find(|row| row.index == index).unwrap();
    let about = sealed.about.clone();
    let number = (1..9).find(|number| about.call == Some(call_id(*number))).unwrap();
    let entry = Entry { kind: sealed.kind, about, payload: sealed.payload.clone() };
    *sealed = signer(key).seal(entry).unwrap();
    let log = Log { rows, checkpoints: log.checkpoints.clone(), signer: signer(2) };
    let bundle = log.bundle_of(number, |row| row.index == index, None);
    Bundle::verify(bundle.render().as_bytes(), None)
}

#[test]
fn the_end_of_a_call_may_be_signed_by_a_later_key_of_the_log_and_by_no_other() {
    let log = log();
    let is_key = |row: &&Row| row.sealed.kind == EntryKind::CheckpointKey;
    let change = log.rows.iter().filter(is_key).nth(1).expect("the log has two keys").index;
    let mut seen = Vec::new();
    for row in log.rows.iter().filter(|row| row.sealed.about.call.is_some()) {
        let (index, is_call) = (row.index, row.sealed.kind == EntryKind::Call);
        let is_before = index <= change;
        let by_second = signed_by(&log, index, 2);
        assert_eq!(by_second.is_ok(), is_call || !is_before, "entry {index} by the second key");
        let by_first = signed_by(&log, index, 1);
        assert_eq!(by_first.is_ok(), is_before, "entry {index} by the first key");
        let flaw = signed_by(&log, index, 9).expect_err("by a key of another log");
        assert_eq!(flaw.place, Place::Entry(index));
        seen.push((is_call, is_before));
    }
    for case in [(true, true), (true, false), (false, true)] {
        assert!(seen.contains(&case), "{case:?}: {seen:?}");
    }
}
