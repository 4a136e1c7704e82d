//! Contract of the port on containers, beside native sandboxes with the same programs.

use std::{sync::Arc, time::Duration};

use ringfence_sandbox::{
    Config, Error, InputFile, Native, Program, Request, Root, Stdin, files::BoxPath,
};
use ringfence_testkit::docker::{IMAGE, SECOND_RUNTIME};
use ringfence_types::{Isolation, Json, Layer, LayerState, Limits, Outcome};

use crate::{
    settings,
    support::{Service, command, eventually, permit, python, shell, stderr, stdout, within},
};

/// Programs whose end and output are the same everywhere.
fn programs() -> Vec<Request> {
    let signal = |signal: i32| {
        python(&format!("import os, time; os.kill(os.getpid(), {signal}); time.sleep(9)"))
    };
    let with_input = |bytes: Vec<u8>| Request {
        stdin: Stdin::Bytes(bytes),
        ..python("import sys; data = sys.stdin.buffer.read(); print(len(data), sum(data))")
    };
    let path = BoxPath::parse("in/data.bin").expect("a path inside");
    let content: Arc<[u8]> = (0..=255).collect();
    let files = vec![InputFile { path, mode: 0o600, content }];
    vec![
        python(
            "import sys; sys.stdout.buffer.write(bytes(range(256)) * 300); sys.stderr.write('e\\u2713')",
        ),
        python("import sys; sys.exit(0)"),
        python("import sys; sys.exit(7)"),
        python("import sys; sys.exit(137)"),
        python("raise ValueError('no')"),
        signal(6),
        signal(9),
        signal(11),
        signal(15),
        with_input(Vec::new()),
        with_input(vec![3; 300_000]),
        Request { stdin: Stdin::Bytes(vec![0; 4 << 20]), ..python("print('done')") },
        Request { files, ..python("print(sum(open('in/data.bin', 'rb').read()))") },
        command(&["printf", "%s|", "a b", "$HOME", "*", "$(id)", "; echo x", ""]),
        Request { cwd: "/tmp".to_owned(), ..command(&["pwd"]) },
        command(&["pwd"]),
        shell(
            "id -u > /dev/null; grep -E 'Cap(Eff|Prm|Bnd|Amb)|NoNewPrivs|Seccomp:' /proc/self/status",
        ),
        shell(
            "touch /etc/x 2>/dev/null || echo read-only; touch /workspace/x /tmp/x && echo written",
        ),
        python(
            "import socket\ntry: socket.socket(socket.AF_INET)\nexcept OSError as e: print(e.errno)",
        ),
        shell("(sleep 100 &) ; echo left"),
        python("import os; print(len(os.sched_getaffinity(0)))"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_end_as_in_native_sandboxes() {
    let Some(service) = Service::open("programs_end_as_in_native_sandboxes", 0) else { return };
    let native = Native::open(Config { exe: settings::binary(), ..Config::one_shot() });
    for request in programs() {
        let there = native.run(permit(), request.clone()).await.expect("native").wait().await;
        let there = there.expect("native");
        let here = service.run(request.clone()).await;
        let seen = |report: &ringfence_sandbox::Report| {
            // Tracebacks name the same file; the interpreters differ in nothing else that is printed.
            let text = stdout(report);
            (report.outcome.clone(), report.exit_code, report.signal, text, report.stderr.total())
        };
        let shown = format!("{request:?}\n{}\n{}", stderr(&here), stderr(&there));
        assert_eq!(seen(&here), seen(&there), "{shown}");
    }
    native.close().await;
    service.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_container_cannot_do_is_refused_by_name() {
    let Some(service) = Service::open("what_a_container_cannot_do_is_refused_by_name", 0) else {
        return;
    };
    let missing = service.try_run(command(&["no-such-program"])).await.expect_err("is not there");
    assert!(matches!(missing, Error::NotStarted { errno: 2, .. }), "{missing:?}");
    assert!(missing.to_string().contains("no-such-program") && missing.hint().is_some());
    let nowhere = Request { cwd: "/nowhere".to_owned(), ..command(&["pwd"]) };
    let nowhere = service.try_run(nowhere).await.expect_err("is not there");
    assert!(nowhere.to_string().contains("directory `/nowhere`"), "{nowhere}");
    let call = Program::Call {
        language: ringfence_sandbox::Language::Python,
        code: "def main(): pass".into(),
        file: "main.py".to_owned(),
        ahead: None,
        function: None,
        args: Json::parse(b"{}").expect("json"),
    };
    let with = |change: &dyn Fn(&mut Request)| {
        let mut request = command(&["true"]);
        change(&mut request);
        request
    };
    let refused = [
        (Request::new(call), "functions"),
        (with(&|r| r.listeners.push(ringfence_sandbox::Listener::Proxy)), "no network"),
        (with(&|r| r.isolation = Some(Isolation::Zygote)), "zygote"),
        (with(&|r| r.limits.terminals = 1), "terminal"),
        (with(&|r| r.runtime = Some("kata-none".to_owned())), "kata-none"),
        (with(&|r| r.program = Program::Command(Vec::new())), "names a program"),
        (with(&|r| drop(r.env.insert("a=b".to_owned(), "x".to_owned()))), "environment"),
    ];
    for (request, words) in refused {
        let error = service.try_run(request).await.expect_err(words);
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
    for (image, words) in [
        ("no-such-image", "is not in the container engine"),
        ("../../etc", "is not the name of an image"),
        ("a?b=c", "is not the name of an image"),
        ("", "is not the name of an image"),
    ] {
        let request = Request { root: Root::Image(image.to_owned()), ..command(&["true"]) };
        let run = ringfence_sandbox::Backend::run(&service.docker, permit(), request).await;
        let error = run.expect_err(words);
        assert!(error.to_string().contains(words), "{image}: {error}");
    }
    service.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_required_runtime_is_chosen_and_recorded() {
    let Some(service) = Service::open("a_required_runtime_is_chosen", 0) else { return };
    for (wanted, expected) in [(None, "runc"), (Some(SECOND_RUNTIME), SECOND_RUNTIME)] {
        let runtime = wanted.map(str::to_owned);
        let report = service.run(Request { runtime, ..command(&["true"]) }).await;
        assert_eq!(report.outcome, Outcome::Exited { code: 0 }, "{}", stderr(&report));
        assert_eq!(report.container.expect("a record").runtime, expected);
    }
    service.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_was_told_every_bound() {
    let Some(service) = Service::open("the_engine_was_told_every_bound", 0) else { return };
    let mut request = shell("echo up; cat > /dev/null; sleep 100");
    request.limits = Limits { processes: 9, open_files: 77, ..Limits::default() };
    let running = service.start(request).await.expect("started");
    let text = within("output", running.stdout.read(0, 10)).await;
    assert_eq!(text, ringfence_sandbox::Chunk::Data(b"up\n".to_vec()));
    let mine = service.engine.containers().expect("a list");
    let is_mine = |container: &&serde_json::Value| {
        container["Labels"]["dev.ringfence.owner"]
            .as_str()
            .is_some_and(|owner| owner.starts_with("the_engine_was_told"))
    };
    let id =
        mine.iter().find(is_mine).expect("the container")["Id"].as_str().expect("id").to_owned();
    let told = service.engine.inspect(&id).expect("description");
    let host = &told["HostConfig"];
    let memory = Limits::default().memory.0;
    assert_eq!(host["Memory"], memory);
    assert_eq!(host["MemorySwap"], memory);
    assert_eq!(host["PidsLimit"], 10);
    assert_eq!(host["NanoCpus"], 1_000_000_000_u64);
    assert_eq!(host["ReadonlyRootfs"], true);
    assert_eq!(host["NetworkMode"], "none");
    assert_eq!(host["CapDrop"], serde_json::json!(["ALL"]));
    assert_eq!(host["LogConfig"]["Type"], "none");
    assert_eq!(host["Privileged"], false);
    assert_eq!(host["SecurityOpt"], serde_json::json!(["no-new-privileges:true"]));
    assert!(told["Config"]["User"].as_str().is_some_and(|user| user.starts_with("2000")), "{told}");
    assert_eq!(told["Mounts"].as_array().map(Vec::len), Some(1), "{told}");
    assert_eq!(told["Mounts"][0]["RW"], false);
    running.cancel();
    let report = within("end", running.wait()).await.expect("a report");
    assert_eq!(report.outcome, Outcome::Cancelled);
    let record = report.container.clone().expect("a record");
    assert_eq!((record.id.as_str(), record.image.as_str()), (id.as_str(), IMAGE));
    assert!(record.image_id.starts_with("sha256:") && record.engine.starts_with("docker "));
    let layer = |layer| report.layers.0.get(&layer).cloned();
    assert!(matches!(layer(Layer::Seccomp), Some(LayerState::Active(_))));
    assert!(matches!(layer(Layer::Landlock), Some(LayerState::Absent(_))));
    assert!(matches!(layer(Layer::UserNamespace), Some(LayerState::Absent(_))));
    let engine = service.engine.clone();
    service.close().await;
    assert!(engine.inspect(&id).is_err(), "the container is removed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_that_waited_is_used_once_and_replaced() {
    let Some(service) = Service::open("a_container_that_waited_is_used_once", 1) else { return };
    let cold = service.run(shell("echo 1 > /workspace/left; hostname")).await;
    assert_eq!(cold.isolation, Isolation::Cold, "there was none that waited");
    let mut ids = vec![cold.container.expect("a record").id];
    for _ in 0..3 {
        eventually("one that waits", || service.docker.idle() == 1).await;
        let warm = service.run(shell("ls /workspace /tmp /box; echo $0 \"$GIVEN\"")).await;
        assert_eq!(
            (warm.isolation, stdout(&warm).as_str()),
            (Isolation::Warm, "/box:\n\n/tmp:\n\n/workspace:\nsh \n")
        );
        ids.push(warm.container.expect("a record").id);
    }
    // One that ended while it waited is not used.
    eventually("one that waits", || service.docker.idle() == 1).await;
    let waiting = service.engine.containers().expect("a list");
    // Other tests have containers of the same engine.
    let owner = |container: &&serde_json::Value| {
        let owner = container["Labels"]["dev.ringfence.owner"].as_str();
        owner.is_some_and(|owner| owner.starts_with("a_container_that_waited_is_used_once-"))
    };
    let waiting: Vec<_> = waiting.iter().filter(owner).collect();
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    waiting
        .iter()
        .filter_map(|container| container["Id"].as_str())
        .for_each(|id| drop(service.engine.kill(id)));
    let mut request = command(&["true"]);
    request.limits.wall = Duration::from_secs(30);
    let after = service.run(request).await;
    assert_eq!(after.outcome, Outcome::Exited { code: 0 });
    ids.push(after.container.expect("a record").id);
    // Where policy wants one that was built for the call alone.
    let cold = Request { isolation: Some(Isolation::Cold), ..command(&["true"]) };
    assert_eq!(service.run(cold).await.isolation, Isolation::Cold);
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count, "no container is used twice");
    service.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_cannot_forge_its_report_or_end_its_parent() {
    let Some(service) = Service::open("the_program_cannot_forge_its_report", 0) else { return };
    let request = python(
        "import os, signal\n\
         for s in (9, 15, 19, 11):\n    \
         try: os.kill(1, s)\n    except PermissionError: pass\n\
         for path in ('/proc/1/mem', '/proc/1/fd/2', '/proc/1/environ', '/.ringfence/init'):\n    \
         try: open(path, 'r+b'); print('open', path)\n    except OSError as e: print(type(e).__name__)\n\
         os.write(2, b'\\0' * 40 + b'm' * 200)\nos._exit(5)",
    );
    let report = service.run(request).await;
    assert_eq!(report.outcome, Outcome::Exited { code: 5 }, "{}", stderr(&report));
    assert!(!stdout(&report).contains("open"), "{}", stdout(&report));
    assert_eq!(report.stderr.total(), 240);
    service.close().await;
}
