//! New namespaces, each kind by each call; and those of other processes.

use std::{fs, io};

use ringfence_jail::attack::{self, Answer, CLONE_NEWUSER, Namespace};

use crate::{AttackContext, Case, Finding, Group, child::in_child, context::worst, finding::held};

type Way = (&'static str, fn(i32) -> Answer);

const WAYS: [Way; 3] = [
    ("unshare", attack::unshare_into),
    ("clone", attack::clone_into),
    ("clone3", attack::clone3_into),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (way, call) in WAYS {
        let known = Namespace::ALL.into_iter().filter(|kind| way != "clone" || kind.name != "time");
        cases.extend(known.map(|kind| {
            let id = format!("K01.{way}.{}", kind.name);
            let promise = format!("{way} gives no {} namespace", kind.name);
            let attack = move |context: &AttackContext| make(context, call, kind.flag);
            Case::new(Group::Kernel, id, promise, attack)
        }));
    }
    let promise = "clone3, whose arguments no filter can read, is refused";
    cases.push(Case::new(Group::Kernel, "K01.clone3.plain", promise, |context| {
        context.reached("clone3", attack::clone3_plain())
    }));
    let promise = "no namespace of another process can be joined";
    cases.push(Case::new(Group::Kernel, "K14", promise, join_all));
    cases
}

/// Tries the kind alone, and together with a user namespace, with which ordinary users may have it.
fn make(context: &AttackContext, call: fn(i32) -> Answer, flag: i32) -> Finding {
    let tries = [flag, flag | CLONE_NEWUSER]
        .map(|flags| in_child(|| context.succeeded(&format!("flags {flags:#x}"), call(flags))));
    worst(tries).unwrap_or_else(|| held("no try"))
}

/// Joins every link under every `/proc/*/ns`; the control joins its own UTS namespace again.
fn join_all(context: &AttackContext) -> Finding {
    in_child(|| {
        if context.is_outside() {
            let uts = Namespace::ALL[5].flag;
            let joined = attack::enter_own(uts).and_then(|()| join("/proc/self/ns/uts"));
            return context.succeeded("setns", joined);
        }
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let links = processes.flat_map(|process| {
            Namespace::ALL.map(|kind| process.path().join("ns").join(kind.name))
        });
        // A link that cannot be opened is no way in, and most entries of /proc have none.
        let tries = links.filter_map(|link| {
            let namespace = fs::File::open(&link).ok()?;
            Some(context.reached(&link.display().to_string(), attack::join(namespace)))
        });
        worst(tries).unwrap_or_else(|| held("no namespace to be seen"))
    })
}

fn join(link: &str) -> io::Result<()> {
    attack::join(fs::File::open(link)?)
}
