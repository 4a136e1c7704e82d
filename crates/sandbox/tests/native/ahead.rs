//! Code that is executed once and forked for its calls: each call still behaves as if it came
//! alone.

use std::sync::Arc;

use ringfence_sandbox::{
    InputFile, Language, PoolConfig, PoolStatus, Program, Request, files::BoxPath,
};
use ringfence_types::{Digest, Isolation, Json};
use serde_json::{Value, json};

use crate::support::{Service, assert_exited, eventually, stderr};

fn pools(codes: usize) -> PoolConfig {
    PoolConfig { min_ready: 1, codes, ..PoolConfig::default() }
}

fn call(code: &str, args: Value) -> Request {
    Request::new(Program::Call {
        language: Language::Python,
        code: code.into(),
        file: "handler.py".to_owned(),
        function: Some("run".to_owned()),
        args: Json::from_value(&args).expect("is JSON"),
        ahead: Some(Digest::of(code.as_bytes())),
    })
}

/// The pool of a code's interpreters, once there is one.
fn pool(service: &Service, code: &str) -> Option<PoolStatus> {
    let wanted = Some(Digest::of(code.as_bytes()));
    let pools = service.native.pools();
    pools.into_iter().find(|(key, _)| key.code == wanted).map(|(_, status)| status)
}

async fn answer(service: &Service, request: Request) -> Value {
    let report = service.run(request).await;
    assert_exited(&report, 0);
    serde_json::from_slice(&report.result)
        .unwrap_or_else(|error| panic!("{error}: {}", stderr(&report)))
}

/// The first call loads the code itself; once the interpreter is ready, forks have it.
async fn warmed(service: &Service, code: &str, args: Value) {
    answer(service, call(code, args)).await;
    eventually("a fork has the code", || pool(service, code).is_some_and(|pool| pool.ready > 0))
        .await;
}

const COUNTING: &str = "import os\n\
    calls, loaded_in = [], os.getpid()\n\
    def run(word):\n\
    \x20   calls.append(word)\n\
    \x20   os.environ['MARK'] = word\n\
    \x20   return [word, calls, loaded_in == os.getpid(), __file__, __name__, os.getcwd()]";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_is_executed_once_and_calls_share_nothing_they_change() {
    let service = Service::with_pools(pools(4));
    warmed(&service, COUNTING, json!({"word": "first"})).await;
    for word in ["a", "b", "c"] {
        let report = service.run(call(COUNTING, json!({"word": word}))).await;
        let told: Value = serde_json::from_slice(&report.result).expect("json");
        let path = "/workspace/handler.py";
        assert_eq!(told, json!([word, [word], false, path, "handler", "/workspace"]));
        assert_eq!(report.isolation, Isolation::Zygote);
    }
    let pool = pool(&service, COUNTING).expect("is there");
    assert!(pool.hits > 0, "{pool:?}");
    service.close().await;
}

/// A handler finds the same environment after both ways of loading.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_beside_the_code_are_found_by_import_and_by_path() {
    let code = "import beside.words as words\n\
        import os\n\
        def run():\n\
        \x20   import later\n\
        \x20   data = open(os.path.join(os.path.dirname(__file__), 'data.txt')).read()\n\
        \x20   return [words.WORD, words.__file__, later.LATE, data]";
    let file = |path: &str, content: &str| InputFile {
        path: BoxPath::parse(path).expect("a path inside"),
        mode: 0o644,
        content: Arc::from(content.as_bytes()),
    };
    let files = vec![
        file("beside/__init__.py", ""),
        file("beside/words.py", "WORD = 'beside'"),
        file("later.py", "LATE = 'late'"),
        file("data.txt", "data"),
    ];
    let request = || Request { files: files.clone(), ..call(code, json!({})) };
    let wanted = json!(["beside", "/workspace/beside/words.py", "late", "data"]);
    let service = Service::with_pools(pools(4));
    assert_eq!(answer(&service, request()).await, wanted, "loaded by the call");
    eventually("a fork has the code", || pool(&service, code).is_some_and(|pool| pool.ready > 0))
        .await;
    assert_eq!(answer(&service, request()).await, wanted, "loaded ahead");
    assert!(pool(&service, code).is_some_and(|pool| pool.hits > 0));
    service.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_that_a_fork_would_change_is_loaded_by_each_call() {
    let service = Service::with_pools(pools(8));
    let printing = "print('loading')\ndef run(): return 1";
    let threading = "import threading, time\n\
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n\
        def run(): return threading.active_count()";
    for code in [printing, threading] {
        let first = answer(&service, call(code, json!({}))).await;
        eventually("the reason is known", || {
            pool(&service, code).is_some_and(|pool| pool.unforkable.is_some())
        })
        .await;
        assert_eq!(answer(&service, call(code, json!({}))).await, first);
    }
    let report = service.run(call(printing, json!({}))).await;
    assert_eq!(crate::support::stdout(&report), "loading\n");
    service.close().await;
}

/// Code that breaks its own interpreter, which only trusted code can do: its calls still get an
/// answer, and other code is not affected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_that_ends_its_interpreter_is_loaded_by_each_call() {
    let service = Service::with_pools(pools(4));
    let code = "import os\n\
        if os.getpid() == 1: os._exit(9)\n\
        def run(): return 'alive'";
    let killing = || call(code, json!({}));
    assert_eq!(answer(&service, killing()).await, "alive");
    eventually("it is given up", || {
        pool(&service, code).is_some_and(|pool| pool.unforkable.is_some())
    })
    .await;
    assert_eq!(answer(&service, killing()).await, "alive");
    assert_eq!(answer(&service, call("def run(): return 2", json!({}))).await, 2);
    service.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_codes_are_kept_than_configured() {
    let service = Service::with_pools(pools(1));
    let other = "def run(): return 'other'";
    warmed(&service, COUNTING, json!({"word": "x"})).await;
    assert_eq!(answer(&service, call(other, json!({}))).await, "other");
    assert!(pool(&service, other).is_none(), "the first is still in use");
    assert!(pool(&service, COUNTING).is_some());
    service.close().await;
    let service = Service::with_pools(pools(0));
    assert_eq!(answer(&service, call(other, json!({}))).await, "other");
    assert!(pool(&service, other).is_none(), "nothing is kept");
    service.close().await;
}
