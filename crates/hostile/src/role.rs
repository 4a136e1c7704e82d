//! Hidden role of the binary that runs one attack and prints one line.

use std::io::{self, Write};

use ringfence_jail::attack;

use crate::{
    AttackContext, Finding, attacks, decoy,
    finding::{Report, broken},
};

/// First argument with which the binary takes this role.
pub const ROLE: &str = "__attack";

/// Time limit of an attack, enough even on an emulated machine; the few that sleep or spin are
/// bounded to five seconds.
const DEADLINE_SECS: u32 = 45;

/// Runs the attack named by the first argument (after [`ROLE`]) and returns the exit code: 0 if a
/// report was printed, with any verdict, and 2 if the arguments are invalid.
pub fn attack_main(arguments: &[String]) -> i32 {
    match arguments.split_first() {
        Some((first, rest)) if first == decoy::NAME => decoy::main(rest),
        Some((id, rest)) => carry_out(id, rest),
        None => misused("name a case"),
    }
}

fn carry_out(id: &str, arguments: &[String]) -> i32 {
    let Some(case) = attacks::cases().iter().find(|case| case.id == id) else {
        return misused(&format!("no case is named `{id}`"));
    };
    match AttackContext::parse(arguments) {
        Ok(context) => {
            attack::die_after(DEADLINE_SECS);
            let finding = prepare(&context).map_or_else(broken, |()| case.attack(&context));
            report(id, finding)
        }
        Err(problem) => misused(&problem),
    }
}

/// Changes to the suite's scratch directory for controls.
fn prepare(context: &AttackContext) -> Result<(), String> {
    if !context.is_outside() {
        return Ok(());
    }
    let scratch = context.fact("scratch").ok_or("outside an attack needs scratch=<directory>")?;
    std::env::set_current_dir(scratch).map_err(|error| format!("enter `{scratch}`: {error}"))
}

fn report(id: &str, finding: Finding) -> i32 {
    let line = serde_json::to_string(&Report { id: id.to_owned(), finding });
    let printed = line
        .map_err(io::Error::from)
        .and_then(|line| io::stdout().write_all(format!("{line}\n").as_bytes()));
    if printed.is_ok() { 0 } else { 2 }
}

fn misused(problem: &str) -> i32 {
    eprintln!("error: {ROLE}: {problem}");
    2
}
