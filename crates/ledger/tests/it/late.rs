//! A signature that comes later is the one that would have been made at once, and is made only for what
//! stands under a checkpoint of the same key.

use ringfence_ledger::{Entry, Row, merkle};
use ringfence_types::EntryKind;

use crate::samples::{Log, log, receipt, signer};

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
    let late = signer(2).sign_late(&own, index, &sealed.payload, &proof).expect("it is under it");
    assert_eq!(Some(late), sealed.signature);
    let put_off = signer(2).put_off(Entry::call(receipt(3, false))).unwrap();
    assert_eq!((put_off.signature, put_off.leaf), (None, sealed.leaf));
}

#[test]
fn what_was_changed_or_moved_since_its_checkpoint_is_not_signed() {
    let log = log();
    let (Row { index, sealed }, proof) = last(&log);
    let own = signer(2).own(log.checkpoints.last().unwrap()).unwrap();
    let changed = sealed.payload.replace("denied", "finished");
    assert_ne!(changed, sealed.payload);
    let sign = |index, payload: &str, proof| signer(2).sign_late(&own, index, payload, proof);
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
fn only_the_end_of_a_call_is_put_off() {
    let log = log();
    for row in &log.rows {
        let Row { sealed, .. } = row;
        let entry = Entry {
            kind: sealed.kind,
            about: sealed.about.clone(),
            payload: sealed.payload.clone(),
        };
        let is_put_off = signer(1).put_off(entry).unwrap().signature.is_none();
        assert_eq!(is_put_off, sealed.kind == EntryKind::Call);
    }
}
