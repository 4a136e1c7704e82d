//! Attacks in a child process, for those that change or end their process; the child returns the
//! finding.

use std::io::{Read, Write};

use ringfence_jail::attack::{self, ChildEnd, Namespace, Pid};

use crate::{
    AttackContext, Finding, Verdict,
    finding::{broken, held},
};

/// SIGSYS, with which the filter kills.
const BAD_CALL: i32 = 31;

/// Runs an attack in a child and returns its finding.
pub(crate) fn in_child(attack: impl FnOnce() -> Finding) -> Finding {
    in_child_or(attack, |signal| match signal {
        BAD_CALL => held("the filter killed the process"),
        other => broken(format!("the attacking process died of signal {other}")),
    })
}

/// Like [`in_child`], with a finding for a child that dies of a signal.
pub(crate) fn in_child_or(
    attack: impl FnOnce() -> Finding,
    on_signal: impl FnOnce(i32) -> Finding,
) -> Finding {
    let (mut reader, mut writer) = match std::io::pipe() {
        Ok(ends) => ends,
        Err(error) => return broken(format!("pipe: {error}")),
    };
    match attack::fork() {
        Err(error) => broken(format!("fork: {error}")),
        Ok(None) => {
            drop(reader);
            let line = serde_json::to_vec(&attack()).unwrap_or_default();
            leave(i32::from(writer.write_all(&line).is_err()))
        }
        Ok(Some(child)) => {
            drop(writer);
            let mut line = Vec::new();
            let read = reader.read_to_end(&mut line).map(|_| ());
            match (read, attack::wait(child)) {
                (Ok(()), Ok(ChildEnd::Signal(signal))) => on_signal(signal),
                (Ok(()), Ok(ChildEnd::Code(_))) => serde_json::from_slice(&line)
                    .unwrap_or_else(|error| broken(format!("the child reported nothing: {error}"))),
                (Err(error), _) | (_, Err(error)) => broken(format!("child: {error}")),
            }
        }
    }
}

/// Runs a control; if it is refused to an ordinary user, it is tried again as root of namespaces of
/// its own, where the call is allowed and the host is not touched.
pub(crate) fn or_with_own_namespaces(
    context: &AttackContext,
    attack: impl Fn() -> Finding,
) -> Finding {
    let finding = in_child(&attack);
    let is_root = ringfence_jail::ids::is_host_root();
    if !context.is_outside() || is_root || finding.verdict != Verdict::NotApplicable {
        return finding;
    }
    let flags = ["mnt", "net", "uts", "ipc"];
    let kinds = Namespace::ALL.iter().filter(|kind| flags.contains(&kind.name));
    let flags = kinds.fold(0, |flags, kind| flags | kind.flag);
    let again = in_child(|| match attack::enter_own(flags) {
        Ok(()) => attack(),
        Err(error) => context.refused("own namespaces", &error),
    });
    if again.verdict == Verdict::Escaped { again } else { finding }
}

/// Ends this forked process without running its parent's code.
#[expect(clippy::exit, reason = "a forked child must not return into its parent's code")]
pub(crate) fn leave(code: i32) -> ! {
    std::process::exit(code)
}

/// A child that waits to be attacked, and is killed on drop.
#[derive(Debug)]
pub(crate) struct Victim(pub(crate) Pid);

impl Victim {
    /// Starts one; it ends by an alarm even if this process is killed.
    pub(crate) fn start() -> std::io::Result<Self> {
        match attack::fork()? {
            Some(pid) => Ok(Self(pid)),
            None => {
                attack::die_after(5);
                std::thread::sleep(std::time::Duration::from_secs(5));
                leave(0)
            }
        }
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.0, rustix::process::Signal::KILL);
        drop(attack::wait(self.0));
    }
}
