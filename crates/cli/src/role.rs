//! Helper roles of the binary, selected by its name or its first argument.

use std::{env, process::ExitCode};

use ringfence_hostile::{ROLE as ATTACK_ROLE, attack_main};
use ringfence_sandbox::{SPAWNER_ROLE, own_files};

/// Runs a helper role if this process was started for one; `None` for a user's command.
pub(crate) fn play() -> Option<ExitCode> {
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    if name == SPAWNER_ROLE {
        ringfence_jail::spawner::serve(&own_files());
    }
    let first = arguments.next();
    let is_attack = first.is_some_and(|first| first == ATTACK_ROLE);
    is_attack.then(|| attack(arguments))
}

/// Runs an attack. Its arguments come from our own suite and are text.
fn attack(arguments: env::ArgsOs) -> ExitCode {
    let arguments: Vec<String> =
        arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
    ExitCode::from(u8::try_from(attack_main(&arguments)).unwrap_or(2))
}
