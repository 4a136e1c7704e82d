//! Forked interpreters are as fresh as started ones: randomness, modules, descriptors, layout.

use std::collections::BTreeSet;

use ringfence_sandbox::{PoolConfig, Request};
use ringfence_types::{Bytes, Limits};

use crate::support::{
    Service, assert_exited, census, eventually, forked, permit, stderr, stdout, within,
};

/// Everything below that keeps its randomness in memory, loaded ahead.
const IMPORTS: [&str; 9] =
    ["json", "random", "uuid", "tempfile", "secrets", "ssl", "numpy", "numpy.random", "subprocess"];

fn pools(least: usize, imports: &[&str]) -> PoolConfig {
    let imports = imports.iter().map(|name| (*name).to_owned()).collect();
    PoolConfig { min_ready: least, imports, ..PoolConfig::default() }
}

/// I08: two forks of one memory differ from the first read of every source there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_source_of_randomness_repeats_between_calls() {
    let service = Service::with_pools(pools(2, &IMPORTS));
    let code = "import os, random, uuid, tempfile, secrets, ssl, numpy, multiprocessing.process\n\
                print('random', random.random())\n\
                print('getrandbits', random.getrandbits(64))\n\
                print('instance', random.Random().random())\n\
                print('uuid1', uuid.uuid1())\n\
                print('uuid4', uuid.uuid4())\n\
                print('urandom', os.urandom(8).hex())\n\
                print('getrandom', os.getrandom(8).hex())\n\
                print('tempfile', tempfile.mktemp())\n\
                print('mkdtemp', tempfile.mkdtemp())\n\
                print('secrets', secrets.token_hex(8))\n\
                print('ssl', ssl.RAND_bytes(8).hex())\n\
                print('numpy', numpy.random.rand())\n\
                print('numpy_state', hash(numpy.random.get_state()[1].tobytes()))\n\
                print('default_rng', numpy.random.default_rng().random())\n\
                print('shuffle', sorted(range(40), key=lambda _: random.random()))\n\
                print('authkey', bytes(multiprocessing.process.current_process().authkey).hex())";
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let calls = 6;
    for _ in 0..calls {
        let report = service.run(forked(code)).await;
        assert_exited(&report, 0);
        seen.extend(stdout(&report).lines().map(str::to_owned));
    }
    let repeated: Vec<_> = names(&seen).into_iter().filter(|(_, times)| *times != calls).collect();
    assert!(repeated.is_empty(), "seen less than {calls} times: {repeated:?}");
    assert_eq!(names(&seen).len(), 16);
    service.close().await;
}

fn names(lines: &BTreeSet<String>) -> std::collections::BTreeMap<&str, usize> {
    let mut names = std::collections::BTreeMap::new();
    for line in lines {
        *names.entry(line.split(' ').next().unwrap_or_default()).or_default() += 1;
    }
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_call_breaks_is_whole_for_the_next() {
    let service = Service::with_pools(pools(2, &["json", "numpy"]));
    let vandal = "import json, os, sys, builtins, numpy\n\
                  json.dumps = lambda *a: 'evil'\nos.getcwd = lambda: 'evil'\n\
                  builtins.len = lambda x: 666\nsys.path.insert(0, '/evil')\nnumpy.pi = 3\n\
                  sys.modules['re'] = None\nos.umask(0o777)\nos.chdir('/')\n\
                  open('/tmp/json.py', 'w').write('evil = 1')\nprint(json.dumps(1), len([]))";
    let victim = "import json, os, re, sys, numpy\n\
                  print(json.dumps(1), len([]), os.getcwd(), '/evil' in sys.path, \
                  round(numpy.pi, 2), bool(re.match('a', 'a')), oct(os.umask(0)))";
    for _ in 0..4 {
        let broken = service.run(forked(vandal)).await;
        assert_eq!(stdout(&broken), "evil 666\n", "the vandalism works: {}", stderr(&broken));
        let whole = service.run(forked(victim)).await;
        assert_eq!(stdout(&whole), "1 0 /workspace False 3.14 True 0o22\n", "{}", stderr(&whole));
    }
    service.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_pool_forks_on_call() {
    let service = Service::with_pools(pools(0, &["json"]));
    for number in 0..5 {
        let report = service.run(forked(&format!("print({number})"))).await;
        assert_eq!(stdout(&report), format!("{number}\n"));
    }
    let status = &service.native.pools()[0].1;
    assert_eq!((status.hits, status.misses, status.ready), (0, 5, 0));
    service.close().await;
}

/// A shape that no member has, and more calls at once than there are members.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_the_pool_cannot_serve_are_forked_on_call() {
    let service = Service::with_pools(pools(1, &["json"]));
    let limits = Limits { disk: Bytes::mib(7), inodes: 99, ..Limits::default() };
    let look = "import os; s = os.statvfs('/workspace'); print(s.f_blocks * s.f_frsize, s.f_files)";
    let report = service.run(Request { limits, ..forked(look) }).await;
    assert_eq!(stdout(&report), format!("{} {}\n", 7 << 20, 99 + 5), "{}", stderr(&report));
    let native = &service.native;
    let one = |number: usize| {
        let native = native.clone();
        tokio::spawn(async move {
            native.run(permit(), forked(&format!("print({number})"))).await?.wait().await
        })
    };
    let tasks: Vec<_> = (0..8).map(one).collect();
    for (number, task) in tasks.into_iter().enumerate() {
        let report = within("one of eight", task).await.expect("joined").expect("stands");
        assert_exited(&report, 0);
        assert_eq!(stdout(&report), format!("{number}\n"));
    }
    service.close().await;
}

/// A member of the pool gets the call's limits, not those it was made with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_is_given_the_limits_of_its_call() {
    let service = Service::pooled();
    eventually_ready(&service, 1).await;
    let limits = Limits { memory: Bytes::mib(200), processes: 9, ..Limits::default() };
    let hoard = "x = bytearray(b'x' * (300 << 20))";
    let report = service.run(Request { limits: limits.clone(), ..forked(hoard) }).await;
    let ringfence_types::Outcome::OverLimit(hit) = &report.outcome else {
        panic!("{:?} {}", report.outcome, stderr(&report))
    };
    assert_eq!(hit.limit, ringfence_types::Limit::Memory);
    let crowd = "import os, time\nn = 0\ntry:\n    while True:\n        \
                 if os.fork() == 0: time.sleep(60)\n        n += 1\nexcept OSError: print(n)";
    let report = service.run(Request { limits, ..forked(crowd) }).await;
    assert_eq!(stdout(&report), "8\n", "{}", stderr(&report));
    service.close().await;
}

async fn eventually_ready(service: &Service, least: usize) {
    service.native.prepare(&ringfence_sandbox::Root::Host, ringfence_sandbox::Language::Python);
    let ready = || service.native.pools().iter().any(|(_, status)| status.ready >= least);
    eventually("the pool fills", ready).await;
}

/// Killing a zygote kills what was forked from it; the calls after that have another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_zygote_is_replaced_and_no_later_call_fails() {
    let service = Service::pooled();
    for round in 0..4 {
        eventually_ready(&service, 1).await;
        let zygote = zygotes(&service);
        assert!(!zygote.is_empty(), "round {round}: no zygote to kill");
        let before = census::first_processes(&service.exe);
        zygote.into_iter().for_each(|pid| census::kill(pid, &service.exe));
        // What was forked from it dies with it, a moment later.
        let is_gone = |pid: &u32| !census::first_processes(&service.exe).contains(pid);
        eventually("all of them are dead", || before.iter().all(is_gone)).await;
        for number in 0..5 {
            let report = service.try_run(forked(&format!("print({number})"))).await;
            let report = report.unwrap_or_else(|error| panic!("round {round}: {error:?}"));
            assert_exited(&report, 0);
            assert_eq!(stdout(&report), format!("{number}\n"));
        }
    }
    service.close().await;
}

/// First processes whose command line is the zygote's, two namespaces below ours.
fn zygotes(service: &Service) -> Vec<u32> {
    let own = census::namespace_pids(std::process::id()).len();
    let firsts = census::first_processes(&service.exe).into_iter();
    let is_zygote = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("zygote.py")
            && census::namespace_pids(*pid).len() == own + 2
    };
    firsts.filter(is_zygote).collect()
}

/// Children of one zygote share a layout and a hash seed; its successor has others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zygote_is_replaced_after_its_share_of_forks() {
    let service = Service::with_pools(PoolConfig { forks: 3, ..pools(0, &["json"]) });
    let mut seeds = Vec::new();
    for _ in 0..9 {
        let report = service.run(forked("print(hash('seed'), id(print))")).await;
        assert_exited(&report, 0);
        seeds.push(stdout(&report));
    }
    let distinct: BTreeSet<&String> = seeds.iter().collect();
    assert_eq!(distinct.len(), 3, "{seeds:?}");
    assert!(seeds.chunks(3).all(|of_one| of_one.iter().all(|seed| *seed == of_one[0])));
    eventually("the old ones are gone", || zygotes(&service).len() == 1).await;
    service.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn imports_that_fail_are_named_and_harm_no_call() {
    let service = Service::with_pools(pools(1, &["json", "no_such_module", "os"]));
    eventually_ready(&service, 1).await;
    let failed = within("failed imports", service.native.failed_imports()).await;
    let names: Vec<&str> = failed.iter().map(|failed| failed.name.as_str()).collect();
    assert_eq!(names, ["no_such_module"]);
    assert!(failed[0].error.contains("ModuleNotFoundError"), "{failed:?}");
    let report = service.run(forked("import no_such_module")).await;
    assert_exited(&report, 1);
    assert!(stderr(&report).contains("No module named 'no_such_module'"));
    service.close().await;
}

/// Its own argv and environment reveal nothing about the zygote or other calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_in_memory_tells_of_another_call() {
    let service = Service::with_pools(pools(1, &["json"]));
    let secret = "t0p-s3cret-t0ken";
    let mut keeper = forked("import os; kept = os.environ['TOKEN']; print(len(kept))");
    keeper.env.insert("TOKEN".to_owned(), secret.to_owned());
    assert_eq!(stdout(&service.run(keeper).await), "16\n");
    // Reads all of its own memory that the kernel lets it read.
    let search = "import hashlib, re\nfound = total = 0\n\
                  mem = open('/proc/self/mem', 'rb', 0)\n\
                  for line in open('/proc/self/maps'):\n    \
                  span, mode = line.split()[:2]\n    \
                  lo, hi = (int(x, 16) for x in span.split('-'))\n    \
                  if mode[0] != 'r' or '[v' in line: continue\n    \
                  try: mem.seek(lo); data = mem.read(hi - lo)\n    \
                  except (OSError, OverflowError, ValueError): continue\n    \
                  total += len(data); \n    \
                  for hit in re.finditer(b't0p-', data):\n        \
                  found += hashlib.md5(data[hit.start():][:16]).hexdigest() == '@'\n\
                  print(total > 1000000, found)";
    // Only the digest of what is looked for is in the program, or it would find itself.
    let search = search.replace('@', "e063b10005736b62686bf7527b432a0a");
    let report = service.run(forked(&search)).await;
    assert_eq!(stdout(&report), "True 0\n", "{}", stderr(&report));
    // The control: what a program was given itself, it finds.
    let mut own = forked(&search);
    own.env.insert("TOKEN".to_owned(), secret.to_owned());
    let report = service.run(own).await;
    assert!(stdout(&report).starts_with("True ") && !stdout(&report).ends_with(" 0\n"));
    service.close().await;
}
