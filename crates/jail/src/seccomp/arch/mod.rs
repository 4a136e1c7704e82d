//! Parts of the filter that depend on the machine.
//!
//! The policy names calls; an architecture file has the number of each name. Porting is one more
//! file of this shape: a policy name that the architecture lacks (`open` on aarch64) has no number
//! and yields no entry, while a number without a policy fails the tests.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{AUDIT, FOREIGN_NUMBERS_FROM, NUMBERS};

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the system call filter has no number table for this architecture");
