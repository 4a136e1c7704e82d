//! The policy as a document: complete, without contradictions, and printed whole.

use super::super::{Action, Entry, Otherwise, Profile, Values, arch, policy, table};
use expect_test::expect_file;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};

const PROFILES: [Profile; 3] = [Profile::Program, Profile::Loopback, Profile::Zygote];

#[test]
fn every_known_call_has_exactly_one_rule_with_a_reason() {
    for profile in PROFILES {
        let rules = policy::rules(profile);
        let names: BTreeSet<_> = rules.iter().map(|rule| rule.name).collect();
        let known: BTreeSet<_> = arch::NUMBERS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, known, "{profile:?}: left the policy, right the architecture");
        assert_eq!(rules.len(), names.len(), "{profile:?}: a name has two rules");
        assert!(rules.iter().all(|rule| !rule.reason.is_empty()), "{profile:?}: no reason given");
    }
}

#[test]
fn numbers_ascend_and_leave_only_the_known_gap() {
    let numbers: Vec<_> = arch::NUMBERS.iter().map(|(_, number)| *number).collect();
    let expected: Vec<_> = (0..=336).chain(424..=469).collect();
    assert_eq!(numbers, expected);
}

/// Comparison with libc, which has an independent copy of the numbers.
#[test]
fn numbers_agree_with_libc() {
    for (name, number) in [
        ("read", libc::SYS_read),
        ("ioctl", libc::SYS_ioctl),
        ("clone", libc::SYS_clone),
        ("ptrace", libc::SYS_ptrace),
        ("prctl", libc::SYS_prctl),
        ("mknodat", libc::SYS_mknodat),
        ("unshare", libc::SYS_unshare),
        ("seccomp", libc::SYS_seccomp),
        ("bpf", libc::SYS_bpf),
        ("io_uring_setup", libc::SYS_io_uring_setup),
        ("clone3", libc::SYS_clone3),
        ("landlock_restrict_self", libc::SYS_landlock_restrict_self),
        ("mseal", libc::SYS_mseal),
    ] {
        let ours =
            arch::NUMBERS.iter().find(|(other, _)| *other == name).map(|(_, number)| *number);
        assert_eq!(ours.map(i64::from), Some(number), "{name}");
    }
}

#[test]
fn requirements_can_be_met_and_missed() {
    for entry in PROFILES.into_iter().flat_map(table) {
        let Action::Check(requirements) = entry.action else { continue };
        assert!(!requirements.is_empty(), "{}: a check without a requirement", entry.name);
        for requirement in requirements {
            assert!(requirement.argument < 6, "{}: {requirement:?}", entry.name);
            assert!(requirement.mask != 0, "{}: {requirement:?}", entry.name);
            let named = requirement.values.listed();
            assert!(!named.is_empty(), "{}: {requirement:?}", entry.name);
            let within = |value: &u32| value & !requirement.mask == 0;
            assert!(named.iter().all(within), "{}: {requirement:?}", entry.name);
        }
    }
}

/// The review of kernel resources goes through the table call by call: a call that is added here adds its
/// row there, or the reason why it has none.
#[test]
fn every_allowed_call_is_in_the_document_of_kernel_resources() {
    let document = include_str!("../../../../../docs/kernel-resources.md");
    let words: BTreeSet<_> = document.split('`').skip(1).step_by(2).collect();
    for profile in [Profile::Program, Profile::Loopback] {
        let entries = table(profile);
        let allowed = entries
            .iter()
            .filter(|entry| !matches!(entry.action, Action::Errno(_) | Action::Nothing));
        let missing: Vec<_> =
            allowed.map(|entry| entry.name).filter(|name| !words.contains(name)).collect();
        assert!(missing.is_empty(), "{profile:?}: {missing:?}");
    }
}

#[test]
fn the_whole_policy_reads_as_reviewed() {
    let program = table(Profile::Program);
    let differing = |profile| {
        let entries = table(profile);
        summary(entries.iter().filter(|entry| !program.contains(entry)))
    };
    let text = format!(
        "PROGRAM\n\n{}\nLOOPBACK, where it differs\n\n{}\nZYGOTE, where it differs\n\n{}",
        summary(program.iter()),
        differing(Profile::Loopback),
        differing(Profile::Zygote),
    );
    expect_file!["policy.txt"].assert_eq(&text);
}

fn summary<'a>(entries: impl Iterator<Item = &'a Entry>) -> String {
    let mut actions: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for entry in entries {
        actions.entry(describe(entry.action)).or_default().push(entry.name);
    }
    let paragraph = |(action, names): (&String, &Vec<&str>)| {
        format!("{action} ({})\n{}", names.len(), wrap(names))
    };
    actions.iter().map(paragraph).collect::<Vec<_>>().join("\n")
}

fn describe(action: Action) -> String {
    match action {
        Action::Allow => "allow".into(),
        Action::Ask => "ask".into(),
        Action::Nothing => "nothing".into(),
        Action::Errno(errno) => format!("errno {}", errno_name(errno)),
        Action::KillProcess => "kill".into(),
        Action::Check(requirements) => requirements
            .iter()
            .map(|one| {
                let (argument, mask) = (one.argument, one.mask);
                let otherwise = match one.otherwise {
                    Otherwise::Errno(errno) => errno_name(errno),
                    Otherwise::Ask => "ask",
                    Otherwise::Nothing => "nothing",
                };
                let (is, values) = match one.values {
                    Values::OneOf(values) => ("in", values),
                    Values::NoneOf(values) => ("not in", values),
                };
                let or_null =
                    one.or_null.map_or(String::new(), |at| format!(" or argument {at} null"));
                let when = one.when.map_or(String::new(), |(at, value)| {
                    format!("if argument {at} is {value:#x}, ")
                });
                format!(
                    "{when}check argument {argument} & {mask:#x} {is} {values:#x?}{or_null} else {otherwise}",
                )
                .replace('\n', "")
                .replace("    ", " ")
            })
            .collect::<Vec<_>>()
            .join("\n  and "),
    }
}

fn errno_name(errno: Errno) -> &'static str {
    match errno {
        Errno::PERM => "EPERM",
        Errno::NOSYS => "ENOSYS",
        Errno::NOTTY => "ENOTTY",
        Errno::INVAL => "EINVAL",
        Errno::NOMEM => "ENOMEM",
        Errno::OPNOTSUPP => "EOPNOTSUPP",
        Errno::NOPROTOOPT => "ENOPROTOOPT",
        Errno::AFNOSUPPORT => "EAFNOSUPPORT",
        Errno::PROTONOSUPPORT => "EPROTONOSUPPORT",
        other => panic!("the policy uses {other:?} now; give it a name here"),
    }
}

fn wrap(names: &[&str]) -> String {
    let mut lines = vec![String::from(" ")];
    for name in names {
        if lines.last().is_some_and(|line| line.len() + name.len() > 98) {
            lines.push(String::from(" "));
        }
        let line = lines.last_mut().expect("one line at least");
        line.push(' ');
        line.push_str(name);
    }
    lines.join("\n") + "\n"
}
