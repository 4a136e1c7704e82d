//! System call filter: the kernel entry points that a confined process may use.
//!
//! The policy is a reviewed table keyed by call *name*: every call known to the kernel has an
//! action and a reason, and [`table`] prints it. [`Filter::compile`] turns the table into a
//! classic-BPF program once, ahead of time; [`Filter::install`] is then a single system call, so
//! it fits between `clone` and `exec`.
//!
//! Invariants:
//! - A call that is not in the table is answered as not implemented, so new calls of a newer kernel
//!   stay closed, and libc falls back to older ones.
//! - A call by a foreign interface (32-bit, x32) kills the process: its numbers mean other calls.
//! - Filters only ever narrow. A `Program` filter on top of a `Zygote` one is as strict as alone.
//! - Pointers are never followed: rules use values in registers only. This is why `clone3`, whose
//!   flags are in memory, is not implemented for programs.

mod arch;
mod assemble;
mod compile;
mod install;
mod policy;
#[cfg(test)]
mod tests;

use rustix::io::Errno;

/// Kind of process under the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// User code: no namespaces, mounts or further filters, and local (unix) sockets only.
    ///
    /// Connections over loopback that are never accepted are charged to no sandbox, so internet
    /// sockets exist only on request: see [`Profile::Loopback`].
    Program,
    /// A program that may also use TCP and UDP, on its own loopback interface only.
    Loopback,
    /// Our own interpreter process that forks sandboxes: a program that may also build them.
    ///
    /// It never runs a call's code; each child stacks [`Profile::Program`] or [`Profile::Loopback`]
    /// on top first.
    Zygote,
}

/// Treatment of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The call proceeds.
    Allow,
    /// The call proceeds if its arguments meet every requirement, in order.
    Check(&'static [Requirement]),
    /// The service answers instead of the kernel; see [`crate::syscall_responder`].
    Ask,
    /// The call does nothing and returns success.
    Nothing,
    /// The call returns this error and does nothing.
    Errno(Errno),
    /// The whole process dies with `SIGSYS`.
    KillProcess,
}

/// One condition on one argument of a call.
///
/// Only the low 32 bits of a value are checked, because every one named in the policy is an `int`
/// or narrower in the kernel, which drops the rest as well; of a pointer, all 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requirement {
    /// Position of the argument, from 0.
    pub argument: u8,
    /// Relevant bits.
    pub mask: u32,
    /// Allowed values of those bits.
    pub values: Values,
    /// Another argument and its value for which the requirement applies; otherwise it is met.
    pub when: Option<(u8, u32)>,
    /// A pointer argument that meets the requirement if it is null.
    pub or_null: Option<u8>,
    /// Treatment of a call that misses the requirement.
    pub otherwise: Otherwise,
}

/// Values of an argument that meet a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// These and no others.
    OneOf(&'static [u32]),
    /// All but these.
    NoneOf(&'static [u32]),
}

impl Values {
    /// Listed values, allowed or not.
    pub fn listed(self) -> &'static [u32] {
        match self {
            Values::OneOf(values) | Values::NoneOf(values) => values,
        }
    }
}

/// Treatment of a call that misses a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Otherwise {
    /// It returns this error and does nothing.
    Errno(Errno),
    /// The service decides, as for [`Action::Ask`].
    Ask,
    /// It does nothing and returns success, as for [`Action::Nothing`].
    Nothing,
}

/// One line of the reviewed table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Name of the call.
    pub name: &'static str,
    /// Number on this architecture.
    pub number: u32,
    /// Treatment of the call.
    pub action: Action,
    /// Reason for it.
    pub reason: &'static str,
}

/// Treatment of a number that is not in the table.
pub const UNKNOWN: Action = Action::Errno(Errno::NOSYS);

/// The policy of `profile` for this architecture, ascending by number.
pub fn table(profile: Profile) -> Vec<Entry> {
    let rules = policy::rules(profile);
    let entry = |&(name, number): &(&'static str, u32)| {
        let rule = rules.iter().find(|rule| rule.name == name)?;
        Some(Entry { name, number, action: rule.action, reason: rule.reason })
    };
    arch::NUMBERS.iter().filter_map(entry).collect()
}

/// A compiled filter, ready to install any number of times.
#[derive(Clone)]
pub struct Filter {
    /// A valid program: never empty, every path ends in a return, shorter than the kernel's limit.
    instructions: Vec<libc::sock_filter>,
}

impl Filter {
    /// Compiles the table of `profile`. Pure, and too slow to do for every run.
    pub fn compile(profile: Profile) -> Filter {
        Filter { instructions: compile::program(&table(profile)) }
    }

    /// The same filter for a process whose calls no service answers: the calls that it would be asked
    /// about proceed.
    #[must_use]
    pub fn without_questions(mut self) -> Filter {
        for instruction in &mut self.instructions {
            let returns = instruction.code == (libc::BPF_RET | libc::BPF_K) as u16;
            if returns && instruction.k == libc::SECCOMP_RET_USER_NOTIF {
                instruction.k = libc::SECCOMP_RET_ALLOW;
            }
        }
        self
    }

    /// The program as the kernel gets it.
    pub fn instructions(&self) -> &[libc::sock_filter] {
        &self.instructions
    }
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Filter({} instructions)", self.instructions.len())
    }
}
