//! Context of an attack: its side, and facts about the host.

use std::{collections::BTreeMap, io, path::PathBuf};

use crate::finding::{Finding, broken, escaped, held, is_refusal, not_applicable};

/// Side on which a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// In a sandbox, where the attack must be held.
    Inside,
    /// On the host, where the attack must work.
    Outside,
}

/// Context of an attack: its side, and facts about the host as `name=value` arguments.
///
/// Secrets among the facts are reversed, so that an attack that finds them forwards has found the
/// host's copy and not its own command line.
#[derive(Debug, Clone)]
pub struct AttackContext {
    pub(crate) side: Side,
    facts: BTreeMap<String, String>,
}

impl AttackContext {
    /// Parses the arguments after the case's id; the side comes first and defaults to inside.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let (side, rest) = match arguments.split_first() {
            Some((first, rest)) if first == "inside" => (Side::Inside, rest),
            Some((first, rest)) if first == "outside" => (Side::Outside, rest),
            _ => (Side::Inside, arguments),
        };
        let fact = |argument: &String| {
            let (name, value) = argument
                .split_once('=')
                .ok_or_else(|| format!("`{argument}` is not of the form name=value"))?;
            Ok((name.to_owned(), value.to_owned()))
        };
        Ok(Self { side, facts: rest.iter().map(fact).collect::<Result<_, String>>()? })
    }

    pub(crate) fn is_outside(&self) -> bool {
        self.side == Side::Outside
    }

    /// Value for this side.
    pub(crate) fn pick<T>(&self, inside: T, outside: T) -> T {
        if self.is_outside() { outside } else { inside }
    }

    /// A fact; `None` if the runner did not pass it.
    pub(crate) fn fact(&self, name: &str) -> Option<&str> {
        self.facts.get(name).map(String::as_str)
    }

    /// A numeric fact.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.fact(name)?.parse().ok()
    }

    /// A fact that was reversed.
    pub(crate) fn secret(&self, name: &str) -> Option<String> {
        self.fact(name).map(|value| value.chars().rev().collect())
    }

    /// Directory to write in: the workspace, or the suite's scratch directory.
    pub(crate) fn scratch(&self) -> PathBuf {
        let writable =
            |path: &&str| rustix::fs::access(*path, rustix::fs::Access::WRITE_OK).is_ok();
        [".", "/tmp", "/dev/shm"].iter().find(|path| writable(path)).unwrap_or(&".").into()
    }

    /// Finding for an error. Inside it means held. Outside a refusal only means that this user or
    /// this kernel could not do it anyway, and any other error that the control itself is broken.
    pub(crate) fn refused(&self, what: &str, error: &io::Error) -> Finding {
        if !self.is_outside() {
            held(format!("{what}: {error}"))
        } else if is_refusal(error) {
            let uid = rustix::process::geteuid().as_raw();
            not_applicable(format!("not for uid {uid} on this kernel: {what}: {error}"))
        } else {
            broken(format!("{what}: {error}"))
        }
    }

    /// Like [`AttackContext::refused`], for files that not every host has.
    pub(crate) fn refused_or_absent(&self, path: &str, error: &io::Error) -> Finding {
        if self.is_outside() && error.kind() == io::ErrorKind::NotFound {
            return not_applicable(format!("this host has no {path}"));
        }
        self.refused(path, error)
    }

    /// Finding for calls where any answer but a refusal means that the kernel's code was reached.
    pub(crate) fn reached<T>(&self, what: &str, answer: io::Result<T>) -> Finding {
        match answer {
            Ok(_) => escaped(format!("{what} succeeded")),
            Err(error) if is_refusal(&error) => self.refused(what, &error),
            Err(error) => escaped(format!("{what} reached the kernel: {error}")),
        }
    }

    /// Finding for calls where only success is an escape.
    pub(crate) fn succeeded<T>(&self, what: &str, answer: io::Result<T>) -> Finding {
        match answer {
            Ok(_) => escaped(format!("{what} succeeded")),
            Err(error) => self.refused(what, &error),
        }
    }
}

/// Worst of several findings: one escape is an escape, and only refusals are held.
pub(crate) fn worst(findings: impl IntoIterator<Item = Finding>) -> Option<Finding> {
    use crate::Verdict::{Error, Escaped, Held, NotApplicable, NotPromised};
    let rank = |finding: &Finding| match finding.verdict {
        Escaped => 3,
        Error => 2,
        Held => 1,
        NotApplicable | NotPromised => 0,
    };
    findings.into_iter().reduce(|worst, next| if rank(&next) > rank(&worst) { next } else { worst })
}
