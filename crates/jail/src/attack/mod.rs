//! Attacks that need raw system calls; the attack suite runs them inside a sandbox and outside it.
//!
//! They are here because `unsafe` is allowed in no other crate; the `hostile` crate interprets
//! their results. Nothing in the sandbox's own path calls into this module.
//!
//! Invariants: every function is harmless on a host without any sandbox, also as root (where the
//! real call would do damage its arguments are invalid on purpose, so that the kernel's answer only
//! shows whether the call was reached), and every loop is bounded by its caller. The functions that
//! fork are for the attack role, a process with a single thread.

mod crash;
mod foreign;
mod handles;
mod namespaces;
mod privileges;
mod probes;
mod processes;
mod resources;
mod shared;
mod terminal;
mod uncharged;

use std::io;

pub use crash::{CoreLimit, crash_dumps_core};
pub use foreign::{i386_call, x32_call};
pub use handles::{open_by_guessed_handle, open_by_own_handle};
pub use namespaces::{
    CLONE_NEWUSER, Namespace, clone_into, clone3_into, clone3_plain, enter_own, join, unshare_into,
};
pub use privileges::{
    Capabilities, allow_everything, capabilities, fill_capability_sets, listen_to_calls,
    set_personality, set_remount_writable,
};
pub use probes::{Probe, probes};
pub use processes::{
    ChildEnd, Pid, block_signals, close_input, detach_streams, fork, queue_signal, read_memory,
    send_signal, signal_all, signal_thread, steal_descriptor, trace, trace_me, wait, write_memory,
};
pub use resources::{
    create_timers, die_after, hold_message_queues, hold_shared_segment, online_processors,
    open_descriptors, open_socket, physical_page, touch_pages,
};
pub use shared::{map_huge_page, notice_readers};
pub use terminal::{push_input, select_console};
pub use uncharged::{
    attach_filter, get_option, lock_open_file, name_mapping, set_option, take_lease,
};

/// Answer of the kernel: its value, or its error.
pub type Answer = io::Result<i64>;

/// Turns the libc convention (`-1` and `errno`) into an [`Answer`].
fn answer(value: i64) -> Answer {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// Value that fits a register. Arguments of a variadic call leave the upper half of a narrow
/// integer undefined, so every argument is widened first.
trait Word {
    fn word(self) -> usize;
}

macro_rules! words {
    ($($kind:ty),*) => {$(impl Word for $kind {
        fn word(self) -> usize {
            self as isize as usize
        }
    })*};
}

words!(i32, u32, i64, u64, usize);

impl<T> Word for *const T {
    fn word(self) -> usize {
        self as usize
    }
}

impl<T> Word for *mut T {
    fn word(self) -> usize {
        self as usize
    }
}

/// Makes a system call with each argument widened to a register; the caller's `SAFETY` covers it.
macro_rules! call {
    ($number:expr $(, $argument:expr)* $(,)?) => {
        $crate::attack::answer(libc::syscall($number $(, $crate::attack::Word::word($argument))*))
    };
}
use call;
