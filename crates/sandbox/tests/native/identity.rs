//! Identity of a sandbox on the host: a user of its own, and the first to be killed when memory
//! runs out.

use std::{collections::BTreeSet, fs};

use ringfence_sandbox::{Language, PoolConfig, Request, Running};
use ringfence_types::{Isolation, Layer, LayerState};

use crate::support::{Service, alone, assert_exited, census, code, forked, python, stdout, within};

fn pools() -> PoolConfig {
    PoolConfig { min_ready: 0, imports: vec!["json".to_owned()], ..PoolConfig::default() }
}

/// Two of each kind, which run until they are dropped.
async fn crowd(service: &Service) -> Vec<Running> {
    let python_waits = "print('here', flush=True); import time; time.sleep(60)";
    let node_waits = "console.log('here'); setTimeout(() => {}, 60000)";
    let cold = Request { isolation: Some(Isolation::Cold), ..python(python_waits) };
    let node = code(Language::Javascript, node_waits);
    let warm = Request { isolation: Some(Isolation::Warm), ..node };
    let mut crowd = Vec::new();
    for request in [&cold, &warm, &forked(python_waits)].into_iter().flat_map(|one| [one; 2]) {
        let running = service.start(request.clone()).await.expect("starts");
        within("first output", running.stdout.read(0, 4)).await;
        crowd.push(running);
    }
    crowd
}

/// Children of one zygote had its uid, and with it one budget of watches, timers, signals.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_living_sandboxes_have_the_same_user_outside() {
    let service = Service::with_pools(pools());
    let crowd = crowd(&service).await;
    let firsts = census::first_processes(&service.exe);
    // Six sandboxes and the zygote of two of them.
    assert_eq!(firsts.len(), 7, "{firsts:?}");
    let mut seen = BTreeSet::new();
    for pid in firsts {
        let [uids, gids, groups] = ["Uid:", "Gid:", "Groups:"].map(|key| census::status(pid, key));
        let uid = uids.first().copied().expect("a uid");
        assert_eq!((uids, gids), (vec![uid; 4], vec![uid; 4]));
        assert_eq!(groups, [] as [u32; 0], "none of the service's groups");
        assert!(uid >= 0x7000_0000, "{uid} is far from any account's");
        assert!(seen.insert(uid), "{uid} twice");
    }
    drop(crowd);
    let report = service.run(forked("pass")).await;
    assert!(matches!(report.layers.0[&Layer::OwnUid], LayerState::Active(_)));
    service.native.check(&[Layer::OwnUid]).expect("promised");
    service.close().await;
}

/// Files that one child of a zygote makes, and what is put and taken from outside, are its user's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forked_sandbox_owns_its_files() {
    let service = Service::with_pools(pools());
    let code = "import os\nfor d in ('/workspace', '/tmp', '/dev/shm', '/box'):\n    \
                open(d + '/made', 'w').close()\n    s = os.stat(d + '/made')\n    \
                print(s.st_uid, s.st_gid, os.stat(d).st_uid)\n\
                print(len(os.listdir('/proc/self/fd')) > 2)\n\
                print(os.getresuid(), os.getresgid(), os.getgroups())";
    for _ in 0..3 {
        let report = service.run(forked(code)).await;
        assert_exited(&report, 0);
        let own = "1000 1000 1000\n".repeat(4);
        assert_eq!(stdout(&report), format!("{own}True\n{0} {0} []\n", "(1000, 1000, 1000)"));
    }
    service.close().await;
}

/// A service that the kernel never kills, as some are configured, must not pass that on.
#[test]
fn what_runs_inside_is_ended_first_when_memory_is_short() {
    match alone::part() {
        None => alone::run("identity::what_runs_inside_is_ended_first_when_memory_is_short"),
        Some(_) => {
            // Lowering it needs CAP_SYS_RESOURCE; without that the service is an ordinary process.
            let _ = fs::write("/proc/self/oom_score_adj", "-500");
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
            runtime.expect("a runtime").block_on(oom_scores());
        }
    }
}

async fn oom_scores() {
    let service = Service::with_pools(pools());
    let _crowd = crowd(&service).await;
    let score = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).expect("a process");
        text.trim().parse::<i32>().expect("a number")
    };
    let zygotes = census::zygotes(&service.exe);
    let zygotes: Vec<u32> = zygotes.into_iter().filter(|pid| is_python(*pid)).collect();
    let helpers: BTreeSet<u32> =
        census::templates(&service.exe).into_iter().chain(zygotes).collect();
    assert!(helpers.len() >= 2, "{helpers:?}");
    let spawners = census::spawners(&service.exe);
    let inherited = score(std::process::id());
    for pid in census::family(&service.exe) {
        let expected = match () {
            () if spawners.contains(&pid) => inherited,
            () if helpers.contains(&pid) => 500,
            () => 1000,
        };
        assert_eq!(
            score(pid),
            expected,
            "{pid} {:?}",
            fs::read_to_string(format!("/proc/{pid}/comm"))
        );
    }
    // And it cannot be taken back from inside.
    let lower = "import os\nprint(open('/proc/self/oom_score_adj').read().strip())\n\
                 try: open('/proc/self/oom_score_adj', 'w').write('0')\n\
                 except OSError as error: print(type(error).__name__)\n\
                 print(open('/proc/self/oom_score_adj').read().strip())";
    for isolation in [Isolation::Cold, Isolation::Zygote] {
        let report = service.run(Request { isolation: Some(isolation), ..python(lower) }).await;
        assert_eq!(stdout(&report), "1000\nPermissionError\n1000\n", "{isolation:?}");
    }
    service.close().await;
}

/// Zygotes, distinguished from the inits of cold sandboxes by their program.
fn is_python(pid: u32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).contains("zygote.py")
}
