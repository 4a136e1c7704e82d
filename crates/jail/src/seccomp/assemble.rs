//! A classic-BPF assembler that writes back to front.
//!
//! Jumps only go forward, so writing the end first means every target is known when its jump is
//! written and nothing is patched. Conditional jumps reach 255 instructions; a target further away
//! gets an intermediate instruction right behind the jump: a copy of the target if that is a
//! return, which costs no extra step, or an unconditional jump.

use libc::sock_filter;
use std::collections::BTreeMap;

const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
const JUMP: u16 = 0x05; // BPF_JMP | BPF_JA
const JUMP_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const JUMP_FROM: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const JUMP_BITS: u16 = 0x45; // BPF_JMP | BPF_JSET | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K

/// Largest distance of a conditional jump: two intermediate instructions may be added after it was
/// measured, hence not 255.
const REACH: usize = 253;

/// Target of a jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    /// An instruction already written, counted from the end of the program.
    At(usize),
    /// A return of this value; the nearest one is used.
    Return(u32),
}

#[derive(Debug, Default)]
pub(super) struct Assembler {
    /// The program, last instruction first.
    reversed: Vec<sock_filter>,
    /// Position of the last written, and so nearest, return of each value.
    returns: BTreeMap<u32, usize>,
}

impl Assembler {
    /// Loads the word at `offset` of the call's data and continues at `next`.
    pub(super) fn load(&mut self, offset: u32, next: Label) -> Label {
        self.fall_into(next);
        Label::At(self.write(LOAD, 0, 0, offset))
    }

    /// Keeps the bits of `mask` and continues at `next`.
    pub(super) fn and(&mut self, mask: u32, next: Label) -> Label {
        self.fall_into(next);
        Label::At(self.write(AND, 0, 0, mask))
    }

    pub(super) fn branch_equal(&mut self, value: u32, equal: Label, other: Label) -> Label {
        self.branch(JUMP_EQUAL, value, equal, other)
    }

    pub(super) fn branch_from(&mut self, value: u32, from: Label, below: Label) -> Label {
        self.branch(JUMP_FROM, value, from, below)
    }

    /// Branches on whether any bit of `mask` is set.
    pub(super) fn branch_bits(&mut self, mask: u32, any: Label, none: Label) -> Label {
        self.branch(JUMP_BITS, mask, any, none)
    }

    pub(super) fn finish(mut self) -> Vec<sock_filter> {
        self.reversed.reverse();
        self.reversed
    }

    fn branch(&mut self, code: u16, value: u32, yes: Label, no: Label) -> Label {
        let (yes, no) = (self.within_reach(yes), self.within_reach(no));
        let (yes, no) = (self.distance(yes), self.distance(no));
        let narrow = |distance: usize| u8::try_from(distance).expect("a place within reach");
        Label::At(self.write(code, narrow(yes), narrow(no), value))
    }

    /// Position that leads to `label` and that the next jump can reach.
    fn within_reach(&mut self, label: Label) -> usize {
        match self.place(label) {
            Some(place) if self.distance(place) <= REACH => place,
            _ => self.write_intermediate(label),
        }
    }

    /// Makes the next instruction fall through to `label`.
    fn fall_into(&mut self, label: Label) {
        if self.place(label).is_none_or(|place| self.distance(place) > 0) {
            self.write_intermediate(label);
        }
    }

    fn place(&self, label: Label) -> Option<usize> {
        match label {
            Label::At(place) => Some(place),
            Label::Return(value) => self.returns.get(&value).copied(),
        }
    }

    /// Instructions between the one written next and `place`.
    fn distance(&self, place: usize) -> usize {
        self.reversed.len() - 1 - place
    }

    fn write_intermediate(&mut self, label: Label) -> usize {
        match label {
            Label::At(place) => {
                let distance = u32::try_from(self.distance(place)).expect("a program below 4 GiB");
                self.write(JUMP, 0, 0, distance)
            }
            Label::Return(value) => {
                let place = self.write(RETURN, 0, 0, value);
                self.returns.insert(value, place);
                place
            }
        }
    }

    fn write(&mut self, code: u16, jt: u8, jf: u8, k: u32) -> usize {
        self.reversed.push(sock_filter { code, jt, jf, k });
        self.reversed.len() - 1
    }
}
