//! K20: whichever system call of the setup fails, no program ever runs half confined.
//!
//! First a sandbox is made undisturbed and its calls are recorded. Then each of them is made to
//! fail, one at a time, and the outcome must be one of two: a refusal that names its stage, with
//! not one byte of output, or a program that finds exactly the walls of the undisturbed one.

use std::collections::BTreeMap;

use ringfence_sandbox::{Error, Report, Request};
use ringfence_types::Outcome;

use crate::{
    confinement::{expected, facts, namespaces, probe},
    support::{
        Service, census, eventually, shell, stdout,
        strace::{Strace, name},
    },
};

/// Calls that cannot fail, or whose failure would be one of the tracer.
const UNTOUCHED: [&str; 6] = ["exit_group", "execve", "rt_sigreturn", "brk", "wait4", "vfork"];

/// Where a sandbox that is built by root with version 1 cgroups can be refused.
const STAGES: [&str; 15] = [
    "cgroup",
    "descriptors",
    "workspace",
    "proc",
    "terminals",
    "hostname",
    "rlimits",
    "landlock rules",
    "ids",
    "user namespace",
    "id maps",
    "capabilities",
    "landlock",
    "verify",
    "seccomp",
];

/// Whose children are disturbed, and what they run.
struct Subject {
    service: Service,
    /// Their parent: the template of cold sandboxes, the zygote of forked ones.
    parents: fn(&Service) -> Vec<u32>,
    probe: Request,
    nothing: Request,
}

impl Subject {
    fn cold() -> Self {
        let parents = |service: &Service| census::templates(&service.exe);
        Self { service: Service::cold(), parents, probe: shell(&probe()), nothing: shell("true") }
    }

    /// The one parent there is, once the children of earlier requests are gone.
    async fn parent(&self) -> u32 {
        if (self.parents)(&self.service).is_empty() {
            // The last fault ended it; the next request has another.
            self.service.run(self.nothing.clone()).await;
        }
        eventually("one parent", || (self.parents)(&self.service).len() == 1).await;
        (self.parents)(&self.service)[0]
    }

    async fn is_whole(&self) -> bool {
        is_whole(&self.service.run(self.probe.clone()).await)
    }

    /// Makes one call fail in whatever the parent makes next, and judges what came of it.
    async fn disturb(&self, call: &str, occurrence: usize, fault: &str) -> String {
        let parent = self.parent().await;
        let trace = format!("trace={call}");
        let inject = format!("inject={call}:error={fault}:when={occurrence}");
        let tracing = Strace::attach(parent, &["-e", &trace, "-e", &inject]);
        let outcome = self.service.try_run(self.probe.clone()).await;
        let calls = tracing.finish();
        let log: Vec<_> = calls.iter().map(|(pid, call)| format!("{pid} {call}")).collect();
        let case = format!("{call} #{occurrence} {fault}\n{}\n", log.join("\n"));
        let init = calls.iter().map(|(pid, _)| *pid).find(|pid| *pid != parent);
        // The program is disturbed as well if it makes that many such calls itself; and behind the
        // filter a disturbed call has no number the filter knows, so that it kills.
        let hit = |pid: &u32| *pid != parent && Some(*pid) != init;
        let beyond = calls.iter().any(|(pid, call)| hit(pid) && call.contains("INJECTED"));
        let killed = calls.iter().any(|(_, call)| call.contains("killed by SIGSYS"));
        judge(&case, outcome, beyond || killed)
    }

    /// The calls of an init from its birth to its word that it is ready, with their counts.
    async fn record(&self) -> BTreeMap<String, usize> {
        let parent = self.parent().await;
        let tracing = Strace::attach(parent, &[]);
        self.service.run(self.nothing.clone()).await;
        let calls = tracing.finish();
        let init = calls.iter().map(|(pid, _)| *pid).find(|pid| *pid != parent).expect("a child");
        let mut counts = BTreeMap::new();
        let own = calls.iter().filter(|(pid, _)| *pid == init);
        for name in own.filter_map(|(_, call)| name(call)) {
            if name == "ppoll" || name == "poll" {
                break; // It is ready and waits for its first order.
            }
            *counts.entry(name.to_owned()).or_default() += 1;
        }
        assert!(counts.contains_key("seccomp") && counts.contains_key("sendmsg"), "{counts:?}");
        counts
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_failing_call_lets_a_cold_sandbox_run_half_confined() {
    disturb_all(Subject::cold(), &["EPERM", "ENOMEM"], &STAGES).await;
}

async fn disturb_all(subject: Subject, faults: &[&str], stages: &[&str]) {
    assert!(subject.is_whole().await, "the control");
    let plan = plan(&subject.record().await);
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    for (call, occurrence) in &plan {
        for fault in faults {
            let ending = subject.disturb(call, *occurrence, fault).await;
            *told.entry(format!("{call}: {ending}")).or_default() += 1;
        }
    }
    tell(&told);
    assert!(plan.len() >= 60, "only {} calls were disturbed", plan.len());
    for stage in stages {
        let refused = format!("refused at {stage}");
        assert!(told.keys().any(|what| what.ends_with(&refused)), "never {refused}: {told:#?}");
    }
    // Nothing of it stuck.
    assert!(subject.is_whole().await);
    subject.service.close().await;
}

#[expect(clippy::print_stdout, reason = "a reader of the run wants to see what was injected")]
fn tell(told: &BTreeMap<String, usize>) {
    for (what, times) in told {
        println!("{times:3} × {what}");
    }
}

fn is_whole(report: &Report) -> bool {
    facts(&stdout(report)) == expected() && namespaces(&stdout(report)).len() == 7
}

/// Every call, and every occurrence of it up to a dozen; of more, a sample that has both ends.
fn plan(counts: &BTreeMap<String, usize>) -> Vec<(String, usize)> {
    let mut plan = Vec::new();
    for (call, count) in counts.iter().filter(|(call, _)| !UNTOUCHED.contains(&call.as_str())) {
        let step = count.div_ceil(12);
        let mut chosen: Vec<usize> = (1..=*count).step_by(step).collect();
        chosen.extend((count.saturating_sub(2)..=*count).filter(|n| *n > 0));
        chosen.sort_unstable();
        chosen.dedup();
        plan.extend(chosen.into_iter().map(|occurrence| (call.clone(), occurrence)));
    }
    plan
}

fn judge(case: &str, outcome: Result<Report, Error>, disturbed: bool) -> String {
    match outcome {
        Err(Error::Setup(error)) => format!("refused at {}", error.stage),
        Err(Error::NotStarted { reason, .. }) => format!("not started, {reason}"),
        Err(Error::Gone(who)) => format!("refused, the {who} is gone"),
        Err(Error::Io { doing, .. }) => format!("refused, could not {doing}"),
        Err(error) => panic!("{case}: {error:?}"),
        Ok(report) if is_whole(&report) => "ran behind all walls".to_owned(),
        Ok(report) => {
            let said = stdout(&report);
            let strange: Vec<String> =
                facts(&said).into_iter().filter(|fact| !expected().contains(fact)).collect();
            // One that was killed before its first word needs no record of why.
            let silent = said.is_empty() && matches!(report.outcome, Outcome::Signaled { .. });
            assert!(
                (disturbed || silent) && strange.is_empty(),
                "{case}: {:?}\n{said}",
                report.outcome
            );
            "ended by the filter, or failed itself".to_owned()
        }
    }
}
