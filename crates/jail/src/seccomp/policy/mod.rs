//! The policy itself, by name and with the reason beside each decision.
//!
//! The files are grouped for review: allowed calls, by subject; calls allowed with conditions
//! ([`checks`]); refused calls with the reason ([`denied`]); and the differences of the zygote
//! ([`zygote`]).

mod checks;
mod communication;
mod denied;
mod files;
mod memory;
mod process;
mod sockets;
mod time;
mod zygote;

use super::{Action, Profile};

/// Decision about one call, before it has a number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) action: Action,
    pub(super) reason: &'static str,
}

/// An allowed call, and why that is safe or needed.
type Allowed = (&'static str, &'static str);

/// The rules of `profile`, one for each name, in no particular order.
pub(super) fn rules(profile: Profile) -> Vec<Rule> {
    match profile {
        Profile::Program => program(),
        Profile::Loopback => loopback(),
        Profile::Zygote => over(loopback(), zygote::rules()),
    }
}

fn program() -> Vec<Rule> {
    let groups =
        [files::ALLOWED, memory::ALLOWED, process::ALLOWED, communication::ALLOWED, time::ALLOWED];
    let allowed = groups.into_iter().flatten().copied().map(allow);
    allowed.chain(checks::RULES.iter().copied()).chain(denied::rules()).collect()
}

fn loopback() -> Vec<Rule> {
    over(program(), checks::LOOPBACK.to_vec())
}

fn allow((name, reason): Allowed) -> Rule {
    Rule { name, action: Action::Allow, reason }
}

/// `base`, with the rules of `replacements` instead of those of the same name.
fn over(mut base: Vec<Rule>, replacements: Vec<Rule>) -> Vec<Rule> {
    base.retain(|rule| replacements.iter().all(|other| other.name != rule.name));
    base.extend(replacements);
    base
}
