//! Searches of any size compile to programs that find the right range, also beyond short jumps.

use super::super::assemble::{Assembler, Label};
use super::super::compile::{Range, emit_search};
use super::interpreter::{Call, Interpreter};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Program that searches for `number`; each range answers with its own value or with that of a
/// shared block.
fn search_program(ranges: &BTreeMap<u32, u32>, shared: u32) -> Vec<libc::sock_filter> {
    let mut assembler = Assembler::default();
    // Not a return, so a jump to it from afar needs an intermediate instruction of the other kind.
    let block = assembler.and(0, Label::Return(shared));
    let targets: Vec<_> = ranges
        .iter()
        .map(|(&first, &value)| Range {
            first,
            target: if value == shared { block } else { Label::Return(value) },
            weight: value,
        })
        .collect();
    let tree = emit_search(&mut assembler, &targets);
    assembler.load(0, tree);
    assembler.finish()
}

fn check(ranges: &BTreeMap<u32, u32>) -> Result<(), TestCaseError> {
    let program = search_program(ranges, 3);
    let mut interpreter = Interpreter::new(&program);
    let firsts = ranges.keys().flat_map(|&first| [first.wrapping_sub(1), first, first + 1]);
    for number in firsts.chain([0, u32::MAX]) {
        let expected = ranges.range(..=number).next_back().map(|(_, &value)| value);
        let came = interpreter.evaluate(Call::native(number, [0; 6]));
        prop_assert_eq!(Some(came), expected, "number {}", number);
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_search_finds_the_range_of_every_number(
        mut ranges in prop::collection::btree_map(0..5000_u32, 0..6_u32, 0..900),
    ) {
        ranges.insert(0, 3);
        check(&ranges)?;
    }
}

#[test]
fn long_jumps_use_both_kinds_of_intermediate_instruction() {
    let ranges: BTreeMap<u32, u32> = (0..2000).map(|first| (first, first % 7)).collect();
    check(&ranges).unwrap();
    let program = search_program(&ranges, 3);
    let returns = program.iter().filter(|instruction| instruction.code == 0x06).count();
    assert!(returns > 7, "{returns} returns: no return was copied");
    assert!(program.iter().any(|instruction| instruction.code == 0x05), "no long jump was needed");
}
