//! Two servers on one database under load, with faults. Numbers are printed, correctness is asserted.
//!
//! The default suite runs them shortened; `cargo xtask bench cluster` runs all of it.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use ringfence_testkit::Postgres;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    kills::{Log, Sent, check_call, check_list, locked, repeat, send},
    postgres::{Host, cluster},
    remains::{descendants, groups},
    support::{Server, signal, until},
};

/// Clients at one time.
const CLIENTS: usize = 6;

#[expect(clippy::disallowed_methods, reason = "the whole of it is asked for by a variable")]
fn is_whole() -> bool {
    std::env::var("RINGFENCE_CLUSTER").is_ok_and(|size| size == "whole")
}

/// A size in the default suite, and in the whole run.
fn size(short: usize, whole: usize) -> usize {
    if is_whole() { whole } else { short }
}

/// Two hosts of one installation, with the name of its database.
#[derive(Debug)]
struct Two {
    hosts: [Host; 2],
    database: String,
}

impl Two {
    fn on(postgres: &Postgres) -> Self {
        let database = postgres.database().expect("a database");
        let first = Host::at(postgres.url(&database));
        first.run(&["migrate"]).worked();
        let second = Host::second(&first);
        Self { hosts: [first, second], database }
    }

    fn serve(&self) -> [Server; 2] {
        [self.hosts[0].serve(), self.hosts[1].serve()]
    }

    fn sql(&self, postgres: &Postgres, statement: &str) -> String {
        postgres.sql(&self.database, statement).expect("an answer")
    }

    /// Number of the living process at an address.
    fn number(&self, server: &Server) -> String {
        let address = &server.address;
        let sql = format!(
            "SELECT max(id) FROM processes WHERE address = 'http://{address}' AND NOT dead"
        );
        self.sql(cluster(), &sql)
    }

    /// Waits until no open call is owned by a process; the time that it took.
    fn taken_over(&self, number: &str, since: Instant) -> Duration {
        let sql = format!("SELECT count(*) FROM calls WHERE open AND owner = {number}");
        until("its calls to be taken over", || self.sql(cluster(), &sql) == "0");
        since.elapsed()
    }
}

/// Quick ones, slow ones, detached ones, held ones, and some with effects.
fn body(number: usize, name: &str) -> Value {
    match number % 6 {
        0 => json!({"tool": "echo", "args": {"text": name}}),
        1 => json!({"tool": "echo", "args": {"text": name}, "wait": 0}),
        2 => json!({"tool": "pure", "args": {"n": number}, "wait": number % 2}),
        3 => json!({"tool": "effect", "args": {"n": number}, "wait": number % 2}),
        4 => json!({"tool": "effect", "args": {"n": number}}),
        _ => json!({"tool": "held", "args": {"n": number}}),
    }
}

/// Loads servers by their addresses from several clients while `work` goes on.
fn under_load<T>(
    log: &Log,
    key: &str,
    addresses: &Mutex<[String; 2]>,
    work: impl FnOnce() -> T,
) -> T {
    let is_over = AtomicBool::new(false);
    let turn = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (is_over, turn) = (&is_over, &turn);
            scope.spawn(move || {
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let name = format!("0-{client}-{number}");
                    let body = body(client + number, &name);
                    locked(log).insert(name.clone(), Sent { body: body.clone(), answer: None });
                    // The same request again, to the other server, until it is answered.
                    while !is_over.load(Ordering::Relaxed) {
                        let at = turn.fetch_add(1, Ordering::Relaxed) % 2;
                        let address = addresses.lock().expect("no panic")[at].clone();
                        let answer = send(&address, key, &name, &body);
                        if answer.is_some() {
                            locked(log).get_mut(&name).expect("sent").answer = answer;
                            break;
                        }
                        // Clients do not hammer a server that is gone.
                        std::thread::sleep(Duration::from_millis(20));
                    }
                }
            });
        }
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        done
    })
}

/// Checks every request on a server: none is lost, none doubled. Prints how many were acknowledged.
fn check(title: &str, server: &Server, log: &Log, notes: &str) {
    let acknowledged = locked(log).values().filter(|sent| sent.answer.is_some()).count();
    repeat(server, log, 0);
    check_list(server, log);
    let sent: Vec<_> = locked(log).values().cloned().collect();
    let mut ends = BTreeMap::<String, usize>::new();
    for sent in &sent {
        *ends.entry(check_call(server, sent)).or_default() += 1;
    }
    assert!(acknowledged > 10, "the load was none: {acknowledged}");
    let sent = sent.len();
    eprintln!(
        "{title}: sent {sent}, acknowledged {acknowledged}, lost 0, doubled 0; {ends:?}{notes}"
    );
}

/// Median, 95th percentile and maximum.
fn spread(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64();
    format!("p50 {:.2} s, p95 {:.2} s, max {:.2} s", at(50), at(95), at(100))
}

#[test]
fn servers_that_are_killed_in_turn_lose_and_double_nothing() {
    let two = Two::on(cluster());
    let mut servers = two.serve();
    let log = Log::default();
    let key = servers[0].key.clone();
    let addresses = Mutex::new([servers[0].address.clone(), servers[1].address.clone()]);
    let mut times = Vec::new();
    under_load(&log, &key, &addresses, || {
        for round in 0..size(2, 20) {
            // The moment is the test's input, not a wait for anything.
            std::thread::sleep(Duration::from_secs(3));
            let at = round % 2;
            let number = two.number(&servers[at]);
            let (pid, below) = (servers[at].pid(), descendants(servers[at].pid()));
            let killed = Instant::now();
            signal(pid, Signal::KILL);
            times.push(two.taken_over(&number, killed));
            let next = two.hosts[at].serve();
            addresses.lock().expect("no panic")[at] = next.address.clone();
            std::mem::replace(&mut servers[at], next).gone();
            until("its processes are gone", || below.iter().all(|process| !process.lives()));
            until("its control groups are gone", || groups(pid).is_empty());
        }
    });
    let notes = format!("; takeover {}", spread(times));
    check("kill -9 of one of two servers", &servers[0], &log, &notes);
    for server in servers {
        assert_eq!(server.stop(), Some(0));
    }
    two.hosts[0].run(&["verify", "--log"]).worked();
}

/// Versions of ended calls by id.
fn ended(two: &Two, owned: &str) -> String {
    if owned.is_empty() {
        return String::new();
    }
    let sql = format!(
        "SELECT string_agg(id || ' ' || version || ' ' || state, E'\\n' ORDER BY id) FROM calls
         WHERE NOT open AND id = ANY(string_to_array('{owned}', ',')::uuid[])"
    );
    two.sql(cluster(), &sql)
}

#[test]
fn a_stopped_server_that_wakes_up_writes_nothing() {
    let two = Two::on(cluster());
    let servers = two.serve();
    let log = Log::default();
    let key = servers[0].key.clone();
    let addresses = Mutex::new([servers[0].address.clone(), servers[1].address.clone()]);
    let (mut stalls, mut met) = (Vec::new(), 0);
    under_load(&log, &key, &addresses, || {
        for round in 0..size(2, 30) {
            // The moment is the test's input, not a wait for anything.
            std::thread::sleep(Duration::from_millis(700 + 130 * round as u64 % 900));
            let (at, other) = (round % 2, (round + 1) % 2);
            let number = two.number(&servers[at]);
            signal(servers[at].pid(), Signal::STOP);
            let stopped = Instant::now();
            let owned = format!(
                "SELECT string_agg(id::text, ',') FROM calls WHERE open AND owner = {number}"
            );
            let owned = two.sql(cluster(), &owned);
            // What others see meanwhile: the longest answer of the one that goes on.
            let mut longest = Duration::ZERO;
            let is_taken = format!("SELECT count(*) FROM calls WHERE open AND owner = {number}");
            until("its calls to be taken over", || {
                let asked = Instant::now();
                let body = json!({"tool": "echo", "args": {"text": "meanwhile"}});
                let answer = servers[other].ask("POST", "/v1/calls", Some(&body));
                assert_eq!(answer.status, 200, "{answer:?}");
                longest = longest.max(asked.elapsed());
                stopped.elapsed() > Duration::from_secs(7) && two.sql(cluster(), &is_taken) == "0"
            });
            let before = ended(&two, &owned);
            met += before.lines().count();
            signal(servers[at].pid(), Signal::CONT);
            until("it to be known anew", || {
                let now = two.number(&servers[at]);
                !now.is_empty() && now != number
            });
            let after = ended(&two, &owned);
            for call in before.lines() {
                assert!(after.contains(call), "{call} changed after its server woke up: {after}");
            }
            stalls.push(longest);
        }
    });
    let notes = format!(
        "; {met} calls of stopped servers ended elsewhere and stayed; longest answer of the other \
         meanwhile: {}",
        spread(stalls)
    );
    repeat(&servers[0], &log, 0);
    let sent: Vec<_> = locked(&log).values().cloned().collect();
    let mut ends = BTreeMap::<String, usize>::new();
    for sent in &sent {
        *ends.entry(check_call(&servers[0], sent)).or_default() += 1;
    }
    println!("SIGSTOP of one of two servers: sent {}, {ends:?}{notes}", sent.len());
    assert!(met > 0, "no stop met a call under way");
    for server in servers {
        assert_eq!(server.stop(), Some(0));
    }
    two.hosts[0].run(&["verify", "--log"]).worked();
}

#[test]
fn a_database_that_crashes_loses_and_doubles_nothing_of_two_servers() {
    let own = Postgres::start().expect("a cluster of its own");
    let two = Two::on(&own);
    let servers = two.serve();
    let log = Log::default();
    let key = servers[0].key.clone();
    let addresses = Mutex::new([servers[0].address.clone(), servers[1].address.clone()]);
    under_load(&log, &key, &addresses, || {
        for _ in 0..size(1, 3) {
            // The moment is the test's input, not a wait for anything.
            std::thread::sleep(Duration::from_secs(2));
            own.restart_immediately().expect("it serves again");
        }
        std::thread::sleep(Duration::from_secs(1));
    });
    until("both to be ready", || {
        servers.iter().all(|server| server.ask("GET", "/readyz", None).status == 200)
    });
    check("PostgreSQL restarted in immediate mode", &servers[1], &log, "");
    for server in servers {
        assert_eq!(server.stop(), Some(0));
    }
    two.hosts[0].run(&["verify", "--log"]).worked();
}
