//! A11: The whole log: every field of every entry and every byte of every checkpoint counts.

use ringfence_ledger::{Audited, Flaw, LogCheck, Place, Problem, Row};
use ringfence_types::{Digest, EntryKind};

use crate::samples::{Log, at, call_id, log};

fn check(rows: &[Row], checkpoints: &[String]) -> Result<Audited, Flaw> {
    let mut check = LogCheck::default();
    let mut checkpoints = checkpoints.iter();
    // As a reader would who has them all at hand.
    checkpoints.try_for_each(|note| check.expect(note))?;
    rows.iter().try_for_each(|row| check.row(row, |_| {}))?;
    check.finish()
}

/// The log with one change, and what is found.
fn changed(log: &Log, change: impl FnOnce(&mut Vec<Row>)) -> Flaw {
    let mut rows = log.rows.clone();
    change(&mut rows);
    assert_ne!(rows, log.rows, "the change changes something");
    check(&rows, &log.checkpoints).expect_err("a change that is not found")
}

fn flip_signature(row: &mut Row, at: usize) {
    row.sealed.signature.as_mut().expect("it is signed")[at] ^= 1;
}

#[test]
fn an_untouched_log_holds() {
    let log = log();
    let audited = check(&log.rows, &log.checkpoints).unwrap();
    assert_eq!(audited.entries, 10);
    let absent: Vec<&str> = EntryKind::ALL
        .into_iter()
        .filter(|kind| !audited.kinds.contains_key(kind))
        .map(EntryKind::name)
        .collect();
    assert_eq!(absent, ["secret", "maintenance", "erasure"], "kinds that the samples do not have");
    assert_eq!(audited.checkpoint.unwrap().0, 10);
    let keys: Vec<_> = audited.chain.unwrap().keys().map(|(from, _)| from).collect();
    assert_eq!(keys, [0, 6]);
}

#[test]
fn every_byte_of_every_entry_counts_and_the_entry_is_named() {
    let log = log();
    for index in 0..log.rows.len() {
        let place = Place::Entry(index as u64);
        for at in 0..log.rows[index].sealed.payload.len() {
            let flaw = changed(&log, |rows| {
                let mut bytes = rows[index].sealed.payload.clone().into_bytes();
                bytes[at] ^= 1;
                rows[index].sealed.payload = String::from_utf8(bytes).unwrap();
            });
            assert_eq!(flaw.place, place, "byte {at} of the payload: {flaw}");
        }
        for at in 0..64 {
            let flaw = changed(&log, |rows| flip_signature(&mut rows[index], at));
            assert_eq!(flaw.place, place, "byte {at} of the signature: {flaw}");
        }
        for at in 0..32 {
            let flip = |digest: Digest| {
                let mut bytes = *digest.as_bytes();
                bytes[at] ^= 1;
                Digest::from_bytes(bytes)
            };
            let flaw =
                changed(&log, |rows| rows[index].sealed.leaf = flip(rows[index].sealed.leaf));
            assert_eq!((flaw.place, flaw.problem), (place.clone(), Problem::Leaf));
            let flaw =
                changed(&log, |rows| rows[index].sealed.signer = flip(rows[index].sealed.signer));
            assert_eq!(flaw.place, place);
        }
    }
}

#[test]
fn what_is_kept_beside_an_entry_counts_too() {
    let log = log();
    for index in 0..log.rows.len() {
        let mut flaws = vec![
            changed(&log, |rows| rows[index].sealed.about.at = at(99)),
            changed(&log, |rows| {
                let about = &mut rows[index].sealed.about;
                about.tenant =
                    if about.tenant.is_some() { None } else { Some("x".parse().unwrap()) };
            }),
            changed(&log, |rows| rows[index].sealed.about.call = Some(call_id(77))),
            changed(&log, |rows| rows[index].sealed.about.persona = Some("x".parse().unwrap())),
            changed(&log, |rows| rows[index].sealed.about.tool = Some("x".parse().unwrap())),
        ];
        for kind in EntryKind::ALL {
            if kind != log.rows[index].sealed.kind {
                flaws.push(changed(&log, |rows| rows[index].sealed.kind = kind));
            }
        }
        for flaw in flaws {
            assert_eq!((flaw.place, flaw.problem), (Place::Entry(index as u64), Problem::Index));
        }
    }
}

#[test]
fn every_byte_of_every_checkpoint_counts() {
    let log = log();
    for which in 0..log.checkpoints.len() {
        for at in 0..log.checkpoints[which].len() {
            for flip in [1, 0x20, 0x80] {
                let mut checkpoints = log.checkpoints.clone();
                let mut bytes = checkpoints[which].clone().into_bytes();
                bytes[at] ^= flip;
                // What is not UTF-8 does not even get so far.
                let Ok(text) = String::from_utf8(bytes) else { continue };
                checkpoints[which] = text;
                check(&log.rows, &checkpoints)
                    .expect_err(&format!("byte {at} of checkpoint {which} by {flip}"));
            }
        }
    }
}

#[test]
fn an_entry_that_is_deleted_duplicated_or_numbered_otherwise_is_named() {
    let log = log();
    for index in 0..log.rows.len() - 1 {
        let place = Place::Entry(index as u64);
        let flaw = changed(&log, |rows| drop(rows.remove(index)));
        assert_eq!(flaw.place, place, "{flaw}");
        let flaw = changed(&log, |rows| {
            let copy = rows[index].clone();
            rows.insert(index, copy);
        });
        assert_eq!(flaw.place, Place::Entry(index as u64 + 1), "{flaw}");
        let flaw = changed(&log, |rows| rows[index].index += 1);
        assert_eq!(flaw.place, place, "{flaw}");
    }
}

/// Deletes an entry and renumbers the rest, so that no gap shows.
#[test]
fn entries_that_are_moved_or_closed_up_are_found_between_two_checkpoints() {
    let log = log();
    let numbered = |rows: &mut Vec<Row>| {
        rows.iter_mut().zip(0..).for_each(|(row, index)| row.index = index);
    };
    // Within the reach of one key, so that only the tree can tell.
    for index in 1..4 {
        let flaw = changed(&log, |rows| {
            rows.swap(index, index + 1);
            numbered(rows);
        });
        assert_eq!((flaw.place, flaw.problem), (Place::Entries(0, 4), Problem::Root { size: 5 }));
    }
    for index in 6..9 {
        let flaw = changed(&log, |rows| {
            rows.swap(index, index + 1);
            numbered(rows);
        });
        assert_eq!((flaw.place, flaw.problem), (Place::Entries(6, 9), Problem::Root { size: 10 }));
    }
    for index in 0..log.rows.len() {
        changed(&log, |rows| {
            rows.remove(index);
            numbered(rows);
        });
        changed(&log, |rows| {
            let copy = rows[index].clone();
            rows.insert(index, copy);
            numbered(rows);
        });
    }
}

#[test]
fn a_log_that_ends_early_is_found() {
    let log = log();
    for left in 0..log.rows.len() {
        let flaw = changed(&log, |rows| rows.truncate(left));
        let expected = Place::Entry(left as u64);
        assert_eq!(
            (flaw.place, flaw.problem),
            (expected, Problem::Truncated { size: left as u64 })
        );
    }
}

#[test]
fn entries_after_the_newest_checkpoint_are_checked_by_themselves() {
    let log = log();
    let audited = check(&log.rows, &log.checkpoints[..2]).unwrap();
    assert_eq!((audited.entries, audited.checkpoint.unwrap().0), (10, 6));
    let mut rows = log.rows.clone();
    flip_signature(&mut rows[9], 5);
    let flaw = check(&rows, &log.checkpoints[..2]).unwrap_err();
    assert_eq!((flaw.place, flaw.problem), (Place::Entry(9), Problem::Signature));
}

#[test]
fn an_old_key_signs_nothing_after_its_successor() {
    let log = log();
    let late = crate::samples::signer(1);
    let flaw = changed(&log, |rows| {
        let row = &mut rows[8];
        let entry = ringfence_ledger::Entry::call(crate::samples::receipt(2, true));
        row.sealed = late.seal(entry).unwrap();
    });
    assert_eq!(flaw.place, Place::Entry(8));
    assert!(matches!(flaw.problem, Problem::Key { .. }), "{flaw}");
}

#[test]
fn an_older_checkpoint_of_another_history_is_found() {
    let log = log();
    let mut other = crate::samples::log();
    other.rows.swap(1, 2);
    let (tree, _) = other.grown();
    let forged = crate::samples::signer(1).checkpoint(5, tree.root()).render();
    let notes = [forged, log.checkpoints[2].clone()];
    let flaw = check(&log.rows, &notes).unwrap_err();
    assert_eq!(flaw.place, Place::Entries(0, 4), "{flaw}");
    check(&log.rows, &[log.checkpoints[0].clone(), log.checkpoints[2].clone()])
        .expect("the control: its own older checkpoint holds");
}

/// The log with the ends of its calls not signed yet.
fn owing() -> Log {
    let mut log = log();
    let ends = log.rows.iter_mut().filter(|row| row.sealed.kind == EntryKind::Call);
    ends.for_each(|row| row.sealed.signature = None);
    log
}

#[test]
fn the_end_of_a_call_may_be_by_the_checkpoint_alone_and_is_counted() {
    let log = owing();
    assert_eq!(check(&log.rows, &log.checkpoints).unwrap().unsigned, 3);
    // An entry without a checkpoint over it has no proof.
    let flaw = check(&log.rows, &log.checkpoints[..2]).unwrap_err();
    assert_eq!((flaw.place, flaw.problem), (Place::Entry(9), Problem::Unsigned));
    let audited = check(&log.rows[..8], &log.checkpoints[..2]).unwrap();
    assert_eq!(audited.unsigned, 1, "the control: entry 3 is under the first checkpoint");
}

#[test]
fn everything_but_the_end_of_a_call_must_be_signed() {
    let log = owing();
    for index in (0..log.rows.len()).filter(|at| log.rows[*at].sealed.kind != EntryKind::Call) {
        let flaw = changed(&log, |rows| rows[index].sealed.signature = None);
        let place = Place::Entry(index as u64);
        assert_eq!((flaw.place, flaw.problem), (place, Problem::Unsigned));
    }
}

#[test]
fn every_byte_of_an_entry_that_is_not_signed_counts_too() {
    let log = owing();
    for index in (0..log.rows.len()).filter(|at| log.rows[*at].sealed.signature.is_none()) {
        let place = Place::Entry(index as u64);
        for at in 0..log.rows[index].sealed.payload.len() {
            let flaw = changed(&log, |rows| meddle(&mut rows[index], at));
            assert_eq!(flaw.place, place, "byte {at}: {flaw}");
            // With a recomputed hash the next checkpoint finds it; at once if it is no longer a
            // statement, or differs from the columns beside it.
            changed(&log, |rows| {
                meddle(&mut rows[index], at);
                rows[index].sealed.leaf = leaf(&rows[index].sealed.payload);
            });
        }
        let flaw = changed(&log, |rows| rows[index].sealed.signer = Digest::of(b"other"));
        assert!(matches!((flaw.place, flaw.problem), (p, Problem::Key { .. }) if p == place));
    }
}

fn meddle(row: &mut Row, at: usize) {
    let mut bytes = row.sealed.payload.clone().into_bytes();
    bytes[at] ^= 1;
    row.sealed.payload = String::from_utf8(bytes).unwrap();
}

/// As a leaf is made, from the specification of DSSE.
fn leaf(payload: &str) -> Digest {
    let kind = "application/vnd.in-toto+json";
    let signed = format!("DSSEv1 {} {kind} {} {payload}", kind.len(), payload.len());
    ringfence_ledger::merkle::leaf(signed.as_bytes())
}
