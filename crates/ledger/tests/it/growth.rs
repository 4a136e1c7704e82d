//! A holder of an older checkpoint alone can verify that the log only grew.

use base64::{Engine as _, prelude::BASE64_STANDARD as BASE64};
use ringfence_ledger::{Checkpoint, Growth, Note, PublicKey, SigningKey, merkle};
use serde_json::{Value, json};

use crate::samples::{Log, log, signer};

/// The keys of the log, as a server lists them.
fn keys() -> Vec<(u64, PublicKey)> {
    vec![(0, key(1)), (5, key(2))]
}

fn key(number: u8) -> PublicKey {
    SigningKey::from_seed([number; 32]).public()
}

/// The server's answer about the growth since a checkpoint.
fn told(log: &Log, older: &str) -> Value {
    let from = Checkpoint::of(&Note::parse(older).unwrap()).unwrap().size;
    let (tree, tiles) = log.grown();
    let proof = merkle::consistency(&tiles, from, tree.size()).unwrap();
    let proof: Vec<_> = proof.iter().map(|hash| BASE64.encode(hash.as_bytes())).collect();
    json!({"from": from, "to": tree.size(), "proof": proof, "checkpoint": log.checkpoints.last()})
}

fn growth(told: Value) -> Growth {
    serde_json::from_value(told).unwrap()
}

#[test]
fn a_log_that_grew_is_known_to_have_by_every_older_checkpoint() {
    let log = log();
    for (older, size) in log.checkpoints.iter().zip([5, 6, 10]) {
        let grown = growth(told(&log, older)).verify(older, &keys()).expect("it only grew");
        assert_eq!((grown.from.size, grown.to.size), (size, 10));
        assert_eq!(grown.key, key(2));
    }
}

#[test]
fn a_log_that_was_rewritten_cannot_say_that_it_only_grew() {
    let kept = log().checkpoints[0].clone();
    let mut other = log();
    other.rows[1].sealed.leaf = ringfence_types::Digest::of(b"another entry");
    let (tree, _) = other.grown();
    *other.checkpoints.last_mut().unwrap() =
        signer(2).checkpoint(tree.size(), tree.root()).render();
    let flaw = growth(told(&other, &kept)).verify(&kept, &keys()).expect_err("it is another log");
    assert_eq!(flaw.to_string(), "entries 0 to 4: not those under the checkpoint over 5 entries");
}

#[test]
fn what_was_changed_in_either_checkpoint_or_in_the_proof_is_noticed() {
    let log = log();
    let kept = log.checkpoints[0].clone();
    let whole = told(&log, &kept);
    let with = |change: &dyn Fn(&mut Value)| {
        let mut told = whole.clone();
        change(&mut told);
        growth(told).verify(&kept, &keys())
    };
    assert!(with(&|_| {}).is_ok(), "the control");
    with(&|told| drop(told["proof"].as_array_mut().unwrap().pop())).expect_err("a shorter proof");
    with(&|told| told["proof"][0] = told["proof"][1].clone()).expect_err("another proof");
    with(&|told| told["checkpoint"] = kept.clone().into()).expect_err("not what it is about");
    let forged = kept.replacen("5\n", "4\n", 1);
    growth(whole.clone()).verify(&forged, &keys()).expect_err("the older one is forged");
    growth(whole.clone()).verify(&kept, &keys()[..1]).expect_err("by a key that is none");
    let newer = log.checkpoints[2].clone();
    let shrunk = growth(told(&log, &kept));
    let shrunk = Growth::verify(&shrunk, &newer, &keys());
    assert!(shrunk.is_err(), "{shrunk:?}");
}
