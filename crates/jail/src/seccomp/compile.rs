//! Compilation of the table: a balanced search over ranges of numbers with the same action.
//!
//! When a filter is installed the kernel runs it once for every call number, to learn which calls
//! are allowed for all arguments; those never run the filter again. The cost of a sandbox is
//! therefore the *depth* of the program summed over all numbers: a search tree is several times
//! cheaper than a list, and one balanced by the number of calls in a range is within a few percent
//! of the optimum.

use super::assemble::{Assembler, Label};
use super::{Action, Entry, Otherwise, Requirement, UNKNOWN, Values, arch};
use rustix::io::Errno;

const ALLOW: Label = Label::Return(libc::SECCOMP_RET_ALLOW);
const KILL: Label = Label::Return(libc::SECCOMP_RET_KILL_PROCESS);
/// Success without effect: an error of 0.
const NOTHING: Label = Label::Return(libc::SECCOMP_RET_ERRNO);
/// Hands the call to the listener; not implemented if there is none.
const ASK: Label = Label::Return(libc::SECCOMP_RET_USER_NOTIF);

/// Offsets of the call's number, its interface and its arguments.
const NUMBER_AT: u32 = 0;
const ARCH_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

/// Range from `first` up to the next range's `first`, with one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range<T> {
    pub(super) first: u32,
    pub(super) target: T,
    /// Relative frequency with which the search ends here.
    pub(super) weight: u32,
}

/// Program for a table. `entries` ascend by number.
pub(super) fn program(entries: &[Entry]) -> Vec<libc::sock_filter> {
    let mut assembler = Assembler::default();
    let mut checks = Checks::default();
    let targets: Vec<_> = number_ranges(entries)
        .into_iter()
        .map(|Range { first, target, weight }| {
            let target = emit_action(&mut assembler, &mut checks, target);
            Range { first, target, weight }
        })
        .collect();
    let tree = emit_search(&mut assembler, &targets);
    let native = assembler.load(NUMBER_AT, tree);
    let known = assembler.branch_equal(arch::AUDIT, native, KILL);
    assembler.load(ARCH_AT, known);
    assembler.finish()
}

/// Ranges over all of `u32`: gaps in the table are unknown numbers, the far end is the foreign
/// interface.
///
/// Every number up to the last known one weighs the same, because the kernel tries each once.
fn number_ranges(entries: &[Entry]) -> Vec<Range<Action>> {
    let mut ranges = Vec::new();
    for entry in entries {
        let next = ranges.last().map_or(0, |last: &Range<Action>| last.first + 1);
        let gap = next..entry.number;
        ranges.extend(gap.map(|first| Range { first, target: UNKNOWN, weight: 1 }));
        ranges.push(Range { first: entry.number, target: entry.action, weight: 1 });
    }
    let beyond = ranges.last().map_or(0, |last| last.first + 1);
    ranges.push(Range { first: beyond, target: UNKNOWN, weight: 0 });
    if let Some(first) = arch::FOREIGN_NUMBERS_FROM {
        ranges.push(Range { first, target: Action::KillProcess, weight: 0 });
    }
    coalesce(ranges)
}

/// Drops empty ranges (a later one starts at the same place) and joins equal neighbours.
fn coalesce<T: PartialEq>(ranges: Vec<Range<T>>) -> Vec<Range<T>> {
    let mut joined: Vec<Range<T>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        joined.pop_if(|last| last.first == range.first);
        match joined.last_mut() {
            Some(last) if last.target == range.target => last.weight += range.weight,
            _ => joined.push(range),
        }
    }
    joined
}

/// Requirements that are written already, for calls that share them.
type Checks = Vec<(&'static [Requirement], Label)>;

fn emit_action(assembler: &mut Assembler, checks: &mut Checks, action: Action) -> Label {
    match action {
        Action::Allow => ALLOW,
        Action::Ask => ASK,
        Action::Nothing => NOTHING,
        Action::Errno(errno) => refusal(errno),
        Action::KillProcess => KILL,
        Action::Check(requirements) => emit_check(assembler, checks, requirements),
    }
}

/// Writes the requirements back to front: `ALLOW` follows the last one.
fn emit_check(
    assembler: &mut Assembler,
    checks: &mut Checks,
    requirements: &'static [Requirement],
) -> Label {
    let Some((first, rest)) = requirements.split_first() else { return ALLOW };
    if let Some((_, label)) = checks.iter().find(|(written, _)| *written == requirements) {
        return *label;
    }
    let next = emit_check(assembler, checks, rest);
    let label = emit_requirement(assembler, first, next);
    checks.push((requirements, label));
    label
}

fn emit_requirement(assembler: &mut Assembler, requirement: &Requirement, next: Label) -> Label {
    let otherwise = match requirement.otherwise {
        Otherwise::Errno(errno) => refusal(errno),
        Otherwise::Ask => ASK,
        Otherwise::Nothing => NOTHING,
    };
    let refused = match requirement.or_null {
        Some(pointer) => emit_null(assembler, pointer, next, otherwise),
        None => otherwise,
    };
    let masked = emit_value(assembler, requirement, next, refused);
    // The low half of a 64-bit argument comes first on little-endian machines, the only supported
    // ones.
    let checked = assembler.load(ARGUMENTS_AT + 8 * u32::from(requirement.argument), masked);
    match requirement.when {
        Some((argument, value)) => {
            let matters = assembler.branch_equal(value, checked, next);
            assembler.load(ARGUMENTS_AT + 8 * u32::from(argument), matters)
        }
        None => checked,
    }
}

/// Checks the loaded argument. "None of these bits" is one instruction.
fn emit_value(
    assembler: &mut Assembler,
    requirement: &Requirement,
    met: Label,
    missed: Label,
) -> Label {
    let (values, listed, other) = match requirement.values {
        Values::OneOf([0]) => return assembler.branch_bits(requirement.mask, missed, met),
        Values::OneOf(values) => (values, met, missed),
        Values::NoneOf(values) => (values, missed, met),
    };
    let tree = emit_search(assembler, &value_ranges(requirement.mask, values, listed, other));
    if requirement.mask == u32::MAX { tree } else { assembler.and(requirement.mask, tree) }
}

/// Continues at `null` if both halves of a pointer argument are zero.
fn emit_null(assembler: &mut Assembler, pointer: u8, null: Label, other: Label) -> Label {
    let at = ARGUMENTS_AT + 8 * u32::from(pointer);
    let high = assembler.branch_equal(0, null, other);
    let high = assembler.load(at + 4, high);
    let low = assembler.branch_equal(0, high, other);
    assembler.load(at, low)
}

/// Ranges of the listed values. Each reaches up to the next value that can differ under the mask,
/// so that the search has no branch for impossible values.
fn value_ranges(mask: u32, values: &[u32], listed: Label, other: Label) -> Vec<Range<Label>> {
    let step = 1 << mask.trailing_zeros();
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let mut ranges = vec![Range { first: 0, target: other, weight: 1 }];
    for value in sorted {
        ranges.push(Range { first: value, target: listed, weight: 1 });
        // The largest possible value is the mask itself.
        if value < mask {
            ranges.push(Range { first: value + step, target: other, weight: 1 });
        }
    }
    coalesce(ranges)
}

/// A search for the accumulator in `ranges`, which start at 0 and ascend.
pub(super) fn emit_search(assembler: &mut Assembler, ranges: &[Range<Label>]) -> Label {
    match ranges {
        [only] => only.target,
        [around, one, rest] if around.target == rest.target && rest.first - one.first == 1 => {
            assembler.branch_equal(one.first, one.target, around.target)
        }
        _ => {
            let (below, from) = ranges.split_at(balance_point(ranges));
            let boundary = from[0].first;
            let from = emit_search(assembler, from);
            let below = emit_search(assembler, below);
            assembler.branch_from(boundary, from, below)
        }
    }
}

/// Position at which both sides have the same weight, or else the same length.
fn balance_point(ranges: &[Range<Label>]) -> usize {
    let weigh = |part: &[Range<Label>]| part.iter().map(|range| range.weight).sum::<u32>();
    let imbalance = |&at: &usize| {
        let (left, right) = ranges.split_at(at);
        (weigh(left).abs_diff(weigh(right)), left.len().abs_diff(right.len()))
    };
    (1..ranges.len()).min_by_key(imbalance).expect("two ranges at least to cut between")
}

fn refusal(errno: Errno) -> Label {
    let data = errno.raw_os_error().cast_unsigned() & libc::SECCOMP_RET_DATA;
    Label::Return(libc::SECCOMP_RET_ERRNO | data)
}
