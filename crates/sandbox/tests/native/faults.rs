//! K20: for every failing system call of the set-up, no program ever runs partly confined.
//!
//! First a sandbox is made undisturbed and its calls are recorded. Then each of them is made to
//! fail, one at a time, and the outcome must be one of two: a refusal that names its stage, with
//! not one byte of output, or a program that finds exactly the layers of the undisturbed one.

use std::{collections::BTreeMap, time::Duration};

use ringfence_sandbox::{Chunk, Error, Report, Request, Running};
use ringfence_types::{Limits, Outcome, SandboxNetwork};

use crate::{
    confinement::{expected, facts, namespaces, probe},
    support::{
        Service, census, eventually, forked, shell, stderr, stdout,
        strace::{Strace, name},
        within,
    },
};

/// Calls that cannot fail, or whose failure would be one of the tracer.
const UNTOUCHED: [&str; 6] = ["exit_group", "execve", "rt_sigreturn", "brk", "wait4", "vfork"];

/// Stages at which a sandbox that is built by root with version 1 cgroups can be refused.
const STAGES: [&str; 17] = [
    "cgroup",
    "descriptors",
    "oom score",
    "loopback",
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

/// The same for a sandbox forked from a zygote. The service puts it into its cgroup if it cannot do
/// so itself, so that stage cannot fail.
const ZYGOTE_STAGES: [&str; 16] = [
    "oom score",
    "cgroup namespace",
    "loopback",
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

/// A call that every filter allows and that changes nothing.
const INSTEAD: &str = ":syscall=getuid";

/// Tier whose set-up is disturbed, and its programs.
struct Subject {
    service: Service,
    /// Their parent: the template of cold sandboxes, the zygote of forked ones.
    parents: fn(&Service) -> Vec<u32>,
    probe: Request,
    nothing: Request,
    /// Call that replaces the failing one. Without it the call has no number, which a filter
    /// answers by killing; a zygote's children are behind one from the start.
    instead: &'static str,
    /// Whether the probe stops itself before it looks, until it is told to go on: where a disturbed
    /// call does not kill, the probe's own calls must not be disturbed.
    waits: bool,
}

/// Limits that request every optional part of the set-up.
fn with_all(request: Request) -> Request {
    let limits =
        Limits { network: SandboxNetwork::Loopback, terminals: 1, ..request.limits.clone() };
    Request { limits, ..request }
}

impl Subject {
    fn cold() -> Self {
        let parents = |service: &Service| census::templates(&service.exe);
        let (probe, nothing) = (with_all(shell(&probe())), with_all(shell("true")));
        Self { service: Service::cold(), parents, probe, nothing, instead: "", waits: false }
    }

    /// No pool: every child is forked on the call that it serves.
    fn zygote() -> Self {
        let probe = format!(
            "import os, signal, subprocess, sys\n\
             os.write(2, b'waiting\\n'); os.kill(os.getpid(), signal.SIGSTOP)\n\
             sys.stdout.write(subprocess.run(['sh', '-c', {:?}], \
             capture_output=True, text=True).stdout)",
            probe()
        );
        Self {
            service: Service::cold(),
            parents: |service| census::zygotes(&service.exe),
            probe: with_all(forked(&probe)),
            nothing: with_all(forked("pass")),
            instead: INSTEAD,
            waits: true,
        }
    }

    /// The only parent, once the children of earlier requests are gone.
    async fn parent(&self) -> u32 {
        if (self.parents)(&self.service).is_empty() {
            // The last fault ended it; the next request has another.
            self.service.run(self.nothing.clone()).await;
        }
        eventually("one parent", || (self.parents)(&self.service).len() == 1).await;
        (self.parents)(&self.service)[0]
    }

    async fn is_whole(&self) -> bool {
        is_whole(&self.run_probe(None).await.0.expect("the sandbox stands"))
    }

    /// Runs the probe, and returns what the tracer saw.
    async fn run_probe(
        &self,
        tracing: Option<Strace>,
    ) -> (Result<Report, Error>, Vec<(u32, String)>) {
        let finish = |tracing: Option<Strace>| tracing.map(Strace::finish).unwrap_or_default();
        if !self.waits {
            let outcome = self.service.try_run(self.probe.clone()).await;
            return (outcome, finish(tracing));
        }
        let running = match self.service.start(self.probe.clone()).await {
            Ok(running) => running,
            Err(error) => return (Err(error), finish(tracing)),
        };
        until_it_waits(&running).await;
        let calls = finish(tracing);
        (within("the report", self.go_on(running)).await, calls)
    }

    /// Continues the probe until it has ended: it may stop itself after it was continued.
    async fn go_on(&self, running: Running) -> Result<Report, Error> {
        let mut ending = std::pin::pin!(running.wait());
        loop {
            tokio::select! {
                report = &mut ending => return report,
                () = tokio::time::sleep(Duration::from_millis(5)) => census::wake(&self.service.exe),
            }
        }
    }

    /// Makes one call fail in the parent's next child, and checks the outcome.
    async fn disturb(&self, call: &str, occurrence: usize, fault: &str) -> String {
        let parent = self.parent().await;
        let trace = format!("trace={call}");
        let instead = self.instead;
        let inject = format!("inject={call}:error={fault}{instead}:when={occurrence}");
        let tracing = Strace::attach(parent, &["-e", &trace, "-e", &inject]);
        let (outcome, calls) = self.run_probe(Some(tracing)).await;
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

    /// Calls of an init from its start to its message that it is ready, with their counts.
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

/// Waits until the probe says that it waits, or has ended.
async fn until_it_waits(running: &Running) {
    let mut said = Vec::new();
    while !said.ends_with(b"waiting\n")
        && let Chunk::Data(bytes) =
            within("a word", running.stderr.read(said.len() as u64, 1 << 16)).await
    {
        said.extend(bytes);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_failing_call_lets_a_cold_sandbox_run_half_confined() {
    disturb_all(Subject::cold(), &["EPERM", "ENOMEM"], &STAGES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_failing_call_lets_a_zygote_s_child_run_half_confined() {
    disturb_all(Subject::zygote(), &["EPERM"], &ZYGOTE_STAGES).await;
}

/// The one step of the set-up after the lock-down: it is the program's own first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_whose_processors_cannot_be_chosen_is_not_started() {
    let subject = Subject { instead: INSTEAD, ..Subject::cold() };
    assert!(subject.is_whole().await, "the control");
    assert_eq!(
        subject.disturb("sched_getaffinity", 1, "EPERM").await,
        "not started, affinity: Operation not permitted (os error 1)"
    );
    assert!(subject.is_whole().await, "nothing of it stuck");
    subject.service.close().await;
}

/// The interpreter of a zygote's child handles that itself, and ends without the program.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zygote_s_child_whose_processors_cannot_be_chosen_runs_nothing() {
    let subject = Subject::zygote();
    assert!(subject.is_whole().await, "the control");
    let options = ["-e", "trace=sched_getaffinity", "-e"];
    let inject = format!("inject=sched_getaffinity:error=EPERM{INSTEAD}:when=1");
    let options = [options.as_slice(), &[&inject]].concat();
    let tracing = Strace::attach(subject.parent().await, &options);
    let (outcome, calls) = subject.run_probe(Some(tracing)).await;
    assert_eq!(calls.iter().filter(|(_, call)| call.contains("INJECTED")).count(), 1, "{calls:?}");
    let report = outcome.expect("all walls stand");
    assert_eq!((report.exit_code, stdout(&report).as_str()), (Some(2), ""));
    assert!(!stderr(&report).contains("waiting"), "{}", stderr(&report));
    assert!(subject.is_whole().await, "nothing of it stuck");
    subject.service.close().await;
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

/// Every call, and every occurrence of it up to a dozen; of more, a sample with both ends.
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
            // A process that was killed before its first message has no recorded reason.
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
