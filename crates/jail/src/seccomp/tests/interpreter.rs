//! Classic-BPF interpreter with the kernel's rules for filters, which also records its path.

use libc::sock_filter;
use std::collections::BTreeSet;

/// Data of one call as the kernel shows it to a filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) arch: u32,
    pub(super) number: u32,
    pub(super) arguments: [u64; 6],
}

impl Call {
    pub(super) fn native(number: u32, arguments: [u64; 6]) -> Call {
        Call { arch: super::super::arch::AUDIT, number, arguments }
    }

    /// The aligned word at `offset` of `struct seccomp_data`; anything else the kernel rejects.
    fn word(&self, offset: u32) -> u32 {
        assert!(offset.is_multiple_of(4), "unaligned load");
        match offset {
            0 => self.number,
            4 => self.arch,
            16..64 => {
                let argument = self.arguments[(offset as usize - 16) / 8];
                if offset.is_multiple_of(8) { argument as u32 } else { (argument >> 32) as u32 }
            }
            _ => panic!("the filter reads at {offset}, which no rule needs"),
        }
    }
}

/// Runs a program repeatedly and collects the steps that were taken.
#[derive(Debug)]
pub(super) struct Interpreter<'a> {
    program: &'a [sock_filter],
    /// Steps from an instruction to its successor.
    taken: BTreeSet<(usize, usize)>,
    /// Instructions of the longest evaluation so far.
    pub(super) deepest: usize,
}

impl<'a> Interpreter<'a> {
    pub(super) fn new(program: &'a [sock_filter]) -> Self {
        Interpreter { program, taken: BTreeSet::new(), deepest: 0 }
    }

    pub(super) fn evaluate(&mut self, call: Call) -> u32 {
        let (mut at, mut accumulator, mut steps) = (0, 0, 0);
        loop {
            steps += 1;
            let instruction = self.program[at];
            let k = instruction.k;
            let jump = |yes: bool| usize::from(if yes { instruction.jt } else { instruction.jf });
            let skip = match instruction.code {
                0x20 => {
                    accumulator = call.word(k);
                    0
                }
                0x54 => {
                    accumulator &= k;
                    0
                }
                0x05 => k as usize,
                0x15 => jump(accumulator == k),
                0x35 => jump(accumulator >= k),
                0x45 => jump(accumulator & k != 0),
                0x06 => {
                    self.taken.insert((at, at));
                    self.deepest = self.deepest.max(steps);
                    return k;
                }
                other => panic!("instruction {at} has code {other:#x}, which we never write"),
            };
            self.taken.insert((at, at + 1 + skip));
            at += 1 + skip;
        }
    }

    /// Steps that no evaluation has taken, both ways out of each branch included.
    pub(super) fn untaken(&self) -> Vec<(usize, usize)> {
        let steps = self.program.iter().enumerate().flat_map(|(at, instruction)| {
            let to = |skip: usize| (at, at + 1 + skip);
            match instruction.code {
                0x06 => vec![(at, at)],
                0x05 => vec![to(instruction.k as usize)],
                0x15 | 0x35 | 0x45 => vec![to(instruction.jt.into()), to(instruction.jf.into())],
                _ => vec![to(0)],
            }
        });
        steps.filter(|step| !self.taken.contains(step)).collect()
    }
}
