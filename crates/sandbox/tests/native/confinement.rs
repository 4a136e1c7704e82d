//! The same layers around every tier, observed by a probe that runs inside and by the report.

use std::collections::{BTreeMap, BTreeSet};

use ringfence_sandbox::{Chunk, Request, Running};
use ringfence_types::{Isolation, Layer, LayerState};

use crate::support::{Service, Tier, code, on_every_tier, within};

/// Prints what a process can find out about its own confinement, one fact per line, changing
/// nothing. It needs only a shell, so that it also runs where a fault was injected.
const STATUS: &str = r#"
grep -E '^(Cap[A-Z][a-z]+|NoNewPrivs|Seccomp|Groups|Uid|Gid):' /proc/self/status | tr -s '\t ' ' '
for n in user mnt pid net ipc uts cgroup; do echo "ns $n $(readlink /proc/self/ns/$n)"; done
echo "map $(tr -s ' ' < /proc/self/uid_map | cut -d' ' -f2,4)"
echo "id $(id -u) $(id -g) host $(uname -n)"
if [ -e /sys/kernel ] || [ -e /home ] || [ -e /etc/shadow ]; then echo "sees the host"; fi
ls /sys/class/net /proc/sys 2>/dev/null
ulimit -c; ulimit -n
"#;

/// Tries what must fail, and what must not. Never run outside, where it would succeed.
const ATTEMPTS: &str = r#"
for d in / /usr /etc /proc /dev /.ringfence /root /box/..; do
  if touch $d/.written 2>/dev/null; then echo "writes $d"; fi; done
for d in /workspace /tmp /dev/shm /box; do
  if touch $d/.written 2>/dev/null; then echo "may write $d"; fi; done
if mount -t tmpfs none /tmp 2>/dev/null; then echo "mounts"; fi
if unshare -U true 2>/dev/null; then echo "unshares"; fi
echo "whole"
"#;

/// Both, for the inside of a sandbox.
pub(crate) fn probe() -> String {
    format!("{STATUS}{ATTEMPTS}")
}

/// The probe's facts, without what differs from call to call by design.
pub(crate) fn facts(said: &str) -> Vec<String> {
    let differs = |line: &&str| !line.starts_with("ns ") && !line.starts_with("map ");
    said.lines().filter(differs).map(str::to_owned).collect()
}

/// Namespaces by kind.
pub(crate) fn namespaces(said: &str) -> BTreeMap<String, String> {
    let pair = |line: &str| {
        let (kind, id) = line.strip_prefix("ns ")?.split_once(' ')?;
        Some((kind.to_owned(), id.to_owned()))
    };
    said.lines().filter_map(pair).collect()
}

/// Expected facts on any host that has all layers.
pub(crate) fn expected() -> Vec<String> {
    let zero = "0000000000000000";
    let caps = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
    let mut facts = vec!["Uid: 1000 1000 1000 1000".to_owned(), "Gid: 1000 1000 1000 1000".into()];
    facts.push("Groups: ".to_owned());
    facts.extend(caps.map(|set| format!("{set}: {zero}")));
    facts.extend(["NoNewPrivs: 1", "Seccomp: 2"].map(str::to_owned));
    facts.push("id 1000 1000 host sandbox".to_owned());
    // The shell counts core files in blocks: the one byte they may have is none.
    facts.extend(["0", "512"].map(str::to_owned));
    facts.extend(["/workspace", "/tmp", "/dev/shm", "/box"].map(|dir| format!("may write {dir}")));
    facts.push("whole".to_owned());
    facts
}

on_every_tier! { the_walls_stand_and_are_one_s_own }

async fn the_walls_stand_and_are_one_s_own(tier: Tier) {
    let service = tier.service();
    // Both are there at the same time: the number of a namespace that is gone may come again.
    let first = service.start(probing(tier)).await.expect("starts");
    let one = said(&first).await;
    let second = service.start(probing(tier)).await.expect("starts");
    let two = said(&second).await;
    for said in [&one, &two] {
        assert_eq!(facts(said), expected());
    }
    let (one, two) = (namespaces(&one), namespaces(&two));
    let host: BTreeSet<String> = own().into_iter().collect();
    assert_eq!(one.len(), 7);
    for (kind, id) in &one {
        assert!(!host.contains(id), "{kind} is the host's");
        assert_ne!(Some(id), two.get(kind), "{kind} is shared by two calls");
    }
    drop((first, second));
    service.close().await;
}

/// Output of the probe while its program goes on.
async fn said(running: &Running) -> String {
    let mut said = Vec::new();
    while !said.ends_with(b"whole\n") {
        let offset = said.len() as u64;
        match within("the probe", running.stdout.read(offset, 1 << 16)).await {
            Chunk::Data(bytes) => said.extend(bytes),
            other => panic!("{other:?} after {}", String::from_utf8_lossy(&said)),
        }
    }
    let said = String::from_utf8(said).expect("text");
    assert!(said.contains("map 1000 1\n"), "one id alone: {said}");
    said
}

fn own() -> Vec<String> {
    let kinds = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];
    let link = |kind: &str| std::fs::read_link(format!("/proc/self/ns/{kind}")).expect("own");
    kinds.map(|kind| link(kind).to_string_lossy().into_owned()).to_vec()
}

fn probing(tier: Tier) -> Request {
    let probe = probe();
    let python = format!(
        "import subprocess, sys; sys.stdout.write(subprocess.run(['sh', '-c', {probe:?}], \
         capture_output=True, text=True).stdout); sys.stdout.flush()\nimport time; time.sleep(60)"
    );
    let javascript = format!(
        "process.stdout.write(require('child_process').execFileSync('sh', ['-c', {probe:?}], \
         {{stdio: ['ignore', 'pipe', 'ignore']}})); setTimeout(() => {{}}, 60000)"
    );
    tier.code(&python, &javascript)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_tier_reports_the_same_layers() {
    let service = Service::pooled();
    let mut all = Vec::new();
    for tier in [Tier::Cold, Tier::Zygote, Tier::Warm] {
        let report = service.run(tier.code("1", "1")).await;
        assert_eq!(report.isolation, tier.isolation());
        all.push(report.layers.0);
    }
    assert_eq!(all[0].len(), 16, "{:?}", all[0]);
    for layers in &all {
        let absent: Vec<_> =
            layers.iter().filter(|(_, state)| matches!(state, LayerState::Absent(_))).collect();
        assert!(absent.is_empty(), "{absent:?}");
        assert_eq!(layers.keys().collect::<Vec<_>>(), all[0].keys().collect::<Vec<_>>());
    }
    let landlock = |layers: &BTreeMap<Layer, LayerState>| layers[&Layer::Landlock].clone();
    assert_eq!(landlock(&all[0]), landlock(&all[1]));
    service.close().await;
}

/// Control: outside, none of those layers is found. Changes are made in a mount namespace and a
/// directory of its own, so that the host stays as it is.
#[test]
fn outside_none_of_the_walls_is_found() {
    let outside = |script: &str| {
        let mut command = crate::support::settings::program("unshare");
        let output = command.args(["-m", "sh", "-c", script]).output().expect("unshare");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let said = outside(STATUS);
    assert!(said.contains("sees the host") && said.contains("Seccomp: 0"), "{said}");
    assert!(said.contains("NoNewPrivs: 0") && !said.contains("map 1000 1\n"), "{said}");
    let dir = tempfile::tempdir().expect("temp dir");
    let attempts = format!(
        "mount -t tmpfs none {0} && touch {0}/.written && echo mounts; \
         unshare -U true && echo unshares",
        dir.path().display()
    );
    assert_eq!(outside(&attempts), "mounts\nunshares\n");
    assert_eq!(std::fs::read_dir(dir.path()).expect("own").count(), 0, "it was in a namespace");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_asked_for_is_what_one_gets() {
    let service = Service::pooled();
    let cold = Request {
        isolation: Some(Isolation::Cold),
        ..code(ringfence_sandbox::Language::Python, "1")
    };
    assert_eq!(service.run(cold).await.isolation, Isolation::Cold);
    let fastest = code(ringfence_sandbox::Language::Python, "1");
    assert_eq!(service.run(fastest).await.isolation, Isolation::Zygote);
    service.close().await;
}
