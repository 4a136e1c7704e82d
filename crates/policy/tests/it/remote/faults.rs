//! A16: engines that are stopped, killed, slowed and garbled while calls are judged.
//!
//! Under load, one task per caller judges a harmless and a forbidden document in turn. Expected: the
//! forbidden one is never allowed, each question has an outcome, an allow is the rules' own answer,
//! and once the fault is over, subscribers are notified and decisions flow again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use ringfence_policy::{
    Decided, Engine, Input, Opa, OpaConfig, OpenFga, OpenFgaConfig, POLICY_UNAVAILABLE, Remote,
    State, Trouble, contract::document, decide,
};
use ringfence_testkit::{
    Fault, Opa as OpaServer, OpenFga as OpenFgaServer, Proxy, RELATIONS, server,
};
use ringfence_types::Verdict;
use tokio::task::JoinSet;

use super::{super::until, BUILT_IN, opa, remote};

/// Concurrent callers.
const CALLERS: usize = 8;
/// Time limit of one question: long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Fault and its end.
trait Broken {
    fn begin(&mut self);
    fn end(&mut self);
}

/// Answers seen by the callers, counted while they go on.
#[derive(Debug, Default)]
struct Seen {
    allowed: AtomicUsize,
    denied: AtomicUsize,
    held: AtomicUsize,
}

impl Seen {
    /// Waits for further allows and denials.
    async fn more(&self, when: &str) {
        let (allowed, denied) = (self.allowed.load(Relaxed), self.denied.load(Relaxed));
        let both =
            async || self.allowed.load(Relaxed) > allowed && self.denied.load(Relaxed) > denied;
        until(&format!("callers are allowed and denied {when}"), both).await;
    }
}

/// Judges until stopped; panics if a forbidden document is allowed.
async fn load(
    engine: Arc<dyn Engine>,
    yes: Input,
    no: Input,
    stop: Arc<AtomicBool>,
    seen: Arc<Seen>,
) {
    while !stop.load(Relaxed) {
        for (input, may_run) in [(&yes, true), (&no, false)] {
            let decided = decide(engine.as_ref(), input).await;
            let reason = decided.decision().reasons.first().map(|reason| reason.rule.clone());
            let is_parked = reason.as_deref() == Some(POLICY_UNAVAILABLE);
            match decided {
                Decided::Allow(permit, _) => {
                    assert!(may_run && !is_parked, "ran undecided: {reason:?}");
                    drop(permit);
                    seen.allowed.fetch_add(1, Relaxed);
                }
                Decided::Deny(_) => {
                    seen.denied.fetch_add(1, Relaxed);
                }
                Decided::Hold(decision) => {
                    assert!(is_parked, "{decision:?}");
                    seen.held.fetch_add(1, Relaxed);
                    // The next call arrives a little later, as in practice.
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
    }
}

/// Load, a fault during the load, and the recovery.
async fn survive(engine: Arc<dyn Engine>, yes: Input, no: Input, fault: &mut dyn Broken) {
    let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Seen::default()));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (stop, seen) = (stop.clone(), seen.clone());
        callers.spawn(load(engine.clone(), yes.clone(), no.clone(), stop, seen));
    }
    seen.more("before the fault").await;
    let mut changed = engine.changed();
    fault.begin();
    until("the fault shows", async || engine.status()[0].state != State::Well).await;
    until("calls are held", async || verdict(&*engine, &yes).await == Verdict::Hold).await;
    changed.mark_unchanged();
    fault.end();
    let ticked = tokio::time::timeout(Duration::from_secs(60), changed.changed()).await;
    ticked.expect("a tick after the fault").expect("it lives");
    seen.more("after the fault").await;
    stop.store(true, Relaxed);
    while let Some(ended) = callers.join_next().await {
        ended.expect("no caller panicked");
    }
    assert!(seen.held.load(Relaxed) > 0, "{seen:?}");
}

async fn verdict(engine: &dyn Engine, input: &Input) -> Verdict {
    decide(engine, input).await.decision().verdict
}

struct Line<'a>(&'a Proxy, Fault);

impl Broken for Line<'_> {
    fn begin(&mut self) {
        self.0.set(self.1);
    }

    fn end(&mut self) {
        self.0.set(Fault::None);
    }
}

const LINES: [Fault; 3] = [Fault::Slow(Duration::from_secs(3)), Fault::Garbled, Fault::Cut];

struct FrozenOpa<'a>(&'a mut OpaServer);

impl Broken for FrozenOpa<'_> {
    fn begin(&mut self) {
        self.0.process().freeze();
    }

    fn end(&mut self) {
        self.0.process().thaw();
    }
}

struct KilledOpa<'a>(&'a mut OpaServer);

impl Broken for KilledOpa<'_> {
    fn begin(&mut self) {
        self.0.process().kill();
    }

    fn end(&mut self) {
        self.0.restart().expect("OPA serves again");
    }
}

struct FrozenOpenFga<'a>(&'a mut OpenFgaServer);

impl Broken for FrozenOpenFga<'_> {
    fn begin(&mut self) {
        self.0.process().freeze();
    }

    fn end(&mut self) {
        self.0.process().thaw();
    }
}

struct KilledOpenFga<'a>(&'a mut OpenFgaServer);

impl Broken for KilledOpenFga<'_> {
    fn begin(&mut self) {
        self.0.process().kill();
    }

    fn end(&mut self) {
        self.0.restart().expect("OpenFGA serves again");
    }
}

fn opa_at(url: &str) -> Arc<dyn Engine> {
    let config = opa(url);
    let remote = Remote { timeout: TIMEOUT, ..config.remote };
    Arc::new(Opa::open(OpaConfig { remote, ..config }).expect("a client"))
}

/// Documents that the built-in rules allow and forbid.
fn documents() -> (Input, Input) {
    (document(&["none"], "{}"), document(&["telepathy"], "{}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opa_is_frozen_and_killed_under_load() {
    let test = "opa_is_frozen_and_killed_under_load";
    let Some(program) = server::OPA.program_or_skip(test) else { return };
    let mut server = OpaServer::start(&program, "1", &[("r.rego", BUILT_IN)]).expect("OPA serves");
    let (yes, no) = documents();
    let engine = opa_at(&server.url());
    survive(engine.clone(), yes.clone(), no.clone(), &mut FrozenOpa(&mut server)).await;
    survive(engine, yes, no, &mut KilledOpa(&mut server)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_line_to_opa_is_slow_garbled_and_cut_under_load() {
    let test = "the_line_to_opa_is_slow_garbled_and_cut_under_load";
    let Some(program) = server::OPA.program_or_skip(test) else { return };
    let server = OpaServer::start(&program, "1", &[("r.rego", BUILT_IN)]).expect("OPA serves");
    let proxy = Proxy::start(server.address()).expect("a line");
    let (yes, no) = documents();
    for fault in LINES {
        let engine = opa_at(&proxy.url());
        survive(engine, yes.clone(), no.clone(), &mut Line(&proxy, fault)).await;
    }
}

fn openfga_at(server: &OpenFgaServer, url: &str) -> Arc<dyn Engine> {
    let remote = Remote { timeout: TIMEOUT, ..remote("openfga", url) };
    let config = OpenFgaConfig::usual(remote, server.store.clone(), server.model.clone());
    Arc::new(OpenFga::open(config).expect("a client"))
}

/// Documents of a tenant with the relation, and of one without.
fn related(server: &OpenFgaServer) -> (Input, Input) {
    server.relate("tenant:acme#member", "can_call", "tool:echo").expect("a relation");
    let (yes, mut no) = (document(&[], "{}"), document(&[], "{}"));
    no.tenant = "other".parse().expect("a tenant");
    (yes, no)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openfga_is_frozen_and_killed_under_load() {
    let test = "openfga_is_frozen_and_killed_under_load";
    let Some(program) = server::OPENFGA.program_or_skip(test) else { return };
    let mut server = OpenFgaServer::start(&program, RELATIONS).expect("OpenFGA serves");
    let (yes, no) = related(&server);
    let url = server.url();
    let engine = openfga_at(&server, &url);
    survive(engine.clone(), yes.clone(), no.clone(), &mut FrozenOpenFga(&mut server)).await;
    survive(engine, yes, no, &mut KilledOpenFga(&mut server)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_line_to_openfga_is_slow_garbled_and_cut_under_load() {
    let test = "the_line_to_openfga_is_slow_garbled_and_cut_under_load";
    let Some(program) = server::OPENFGA.program_or_skip(test) else { return };
    let server = OpenFgaServer::start(&program, RELATIONS).expect("OpenFGA serves");
    let proxy = Proxy::start(server.address()).expect("a line");
    let (yes, no) = related(&server);
    for fault in LINES {
        let engine = openfga_at(&server, &proxy.url());
        survive(engine, yes.clone(), no.clone(), &mut Line(&proxy, fault)).await;
    }
}

#[tokio::test]
async fn a_dead_engine_does_not_cost_every_call_its_timeout() {
    let test = "a_dead_engine_does_not_cost_every_call_its_timeout";
    let Some(program) = server::OPA.program_or_skip(test) else { return };
    let mut server = OpaServer::start(&program, "1", &[("r.rego", BUILT_IN)]).expect("OPA serves");
    let engine = opa_at(&server.url());
    let (yes, _) = documents();
    assert_eq!(verdict(&*engine, &yes).await, Verdict::Allow);
    server.process().freeze();
    let mut troubles = Vec::new();
    for _ in 0..1_000 {
        troubles.push(engine.evaluate(&yes).await.expect_err("no answer").trouble);
    }
    let slow = troubles.iter().filter(|trouble| **trouble == Trouble::Slow).count();
    assert!((1..=6).contains(&slow), "{slow} of {} waited", troubles.len());
    assert_eq!(troubles.last(), Some(&Trouble::Down));
    server.process().thaw();
    until("it answers again", async || engine.evaluate(&yes).await.is_ok()).await;
}
