//! Readiness tells of a host that makes no sandboxes any more.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use ringfence_sandbox::{Config, SetupRules};
use serde_json::json;
use tempfile::TempDir;

use crate::support::{Plan, STEP_TIMEOUT, Server, binary, send};

/// Every spawner moves itself into this cgroup, and with it all it makes. What is frozen there
/// neither goes on nor dies when it is killed, as if the kernel held it.
struct Freezer {
    dir: PathBuf,
    exe: PathBuf,
    _files: TempDir,
}

impl Freezer {
    fn new() -> Self {
        let files = tempfile::Builder::new().prefix("ringfence-freezer-").tempdir().unwrap();
        let dir = Path::new("/sys/fs/cgroup/freezer").join(files.path().file_name().unwrap());
        fs::create_dir(&dir).unwrap();
        let exe = files.path().join("spawner");
        let script = format!(
            "#!/bin/bash\necho $$ > {}/cgroup.procs\nexec -a ringfence-spawner {}\n",
            dir.display(),
            binary().display()
        );
        fs::write(&exe, script).unwrap();
        fs::set_permissions(&exe, fs::Permissions::from_mode(0o755)).unwrap();
        Self { dir, exe, _files: files }
    }

    fn set(&self, state: &str) {
        fs::write(self.dir.join("freezer.state"), state).unwrap();
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.set("THAWED");
        let deadline = Instant::now() + Duration::from_secs(10);
        while fs::remove_dir(&self.dir).is_err() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_whose_set_ups_hang_is_not_ready_until_it_recovers() {
    let freezer = Freezer::new();
    let setup = SetupRules {
        timeout: Duration::from_secs(2),
        kill_timeout: Duration::from_millis(500),
        ..SetupRules::default()
    };
    let sandbox = Config { exe: freezer.exe.clone(), setup, ..Config::one_shot() };
    let server = Server::of(Plan::default().sandbox(sandbox)).await;
    let body = json!({"tool": "code_execute", "args": {"code": "print(1)"}});
    let call = || server.post("/v1/calls", &body);
    let ready = || async { send(server.bare("GET", "/readyz")).await };
    assert_eq!((call().await.status, ready().await.status), (200, 200), "the control");
    freezer.set("FROZEN");
    let deadline = Instant::now() + STEP_TIMEOUT;
    while ready().await.status == 200 {
        let answer = call().await;
        if answer.status != 200 {
            let code = answer.problem();
            assert_eq!(answer.status, 503, "{code}");
            assert!(["sandbox_timeout", "sandbox_unavailable"].contains(&code.as_str()), "{code}");
        }
        assert!(Instant::now() < deadline, "it is ready for ever");
    }
    let told = ready().await;
    assert_eq!((told.status, &told.json()["status"]), (503, &json!("sandbox_unavailable")));
    let sandbox = &told.json()["sandbox"];
    assert!(sandbox["hint"].as_str().unwrap().contains("restart the host"), "{sandbox}");
    assert!(sandbox["processes"].as_array().unwrap().len() >= 3, "{sandbox}");
    let refused = call().await;
    assert_eq!((refused.status, refused.problem().as_str()), (503, "sandbox_unavailable"));
    assert_eq!(server.echo("inline tools need no sandbox").await["state"], "finished");
    freezer.set("THAWED");
    while ready().await.status != 200 {
        assert!(Instant::now() < deadline, "it never recovers");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let answer = call().await;
    assert_eq!((answer.status, &answer.json()["state"]), (200, &json!("finished")));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_that_cannot_be_made_is_our_failure_and_tells_nothing_of_the_host() {
    let exe = PathBuf::from("/nonexistent/ringfence");
    let sandbox = Config { exe, ..Config::one_shot() };
    let server = Server::of(Plan::default().sandbox(sandbox)).await;
    let body = json!({"tool": "code_execute", "args": {"code": "print(1)"}});
    let failed = server.post("/v1/calls", &body).await;
    assert_eq!((failed.status, failed.problem().as_str()), (500, "sandbox_failed"));
    let id = failed.json()["call_id"].as_str().unwrap().to_owned();
    let call = server.get(&format!("/v1/calls/{id}")).await.json();
    assert_eq!(
        (&call["state"], &call["error"]["code"]),
        (&json!("finished"), &json!("sandbox_failed"))
    );
    for told in [failed.json(), call] {
        assert!(!told.to_string().contains("/nonexistent"), "{told}");
    }
    server.stop().await;
}
