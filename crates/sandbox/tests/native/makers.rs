//! A sandbox dies with its template or zygote; that is our failure and never the program's.

use ringfence_sandbox::{Error, PoolConfig};

use crate::support::{Service, assert_exited, census, eventually, forked, settings, shell, within};

fn kill(pid: u32) {
    let done = settings::program("/bin/kill").args(["-KILL", &pid.to_string()]).status();
    assert!(done.expect("kill").success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_whose_template_was_killed_is_our_failure() {
    let service = Service::cold();
    let running = service.start(shell("echo here; sleep 1000")).await.expect("it starts");
    eventually("it runs", || running.stdout.kept() == b"here\n").await;
    kill(census::templates(&service.exe)[0]);
    let error = within("report", running.wait()).await.expect_err("no word of the program");
    assert!(matches!(error, Error::Gone("template")), "{error:?}");
    // The control: killed from inside, it is the program's own end.
    assert_eq!(
        service.run(shell("kill -9 $$")).await.outcome,
        ringfence_types::Outcome::Signaled { signal: 9 }
    );
    service.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_whose_zygote_was_killed_is_our_failure() {
    let service = Service::with_pools(PoolConfig { min_ready: 0, ..PoolConfig::default() });
    assert_exited(&service.run(forked("1")).await, 0);
    eventually("only the zygote is left", || census::first_processes(&service.exe).len() == 1)
        .await;
    let zygote = census::first_processes(&service.exe)[0];
    let code = "import time\nprint('here', flush=True)\ntime.sleep(1000)";
    let running = service.start(forked(code)).await.expect("it starts");
    eventually("it runs", || running.stdout.kept() == b"here\n").await;
    kill(zygote);
    let error = within("report", running.wait()).await.expect_err("no word of the program");
    assert!(matches!(error, Error::Gone("zygote")), "{error:?}");
    service.close().await;
}
