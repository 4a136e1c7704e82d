//! Real programs, not toys.

use std::process::Stdio;

use crate::support::{command, ringfence, scratch, shown, write};

#[test]
fn numpy_and_pandas_compute() {
    let code = "
import numpy as np, pandas as pd
frame = pd.DataFrame({'a': np.arange(1000), 'b': np.arange(1000) % 7})
print(int(frame.groupby('b')['a'].sum().max()), float(np.linalg.inv([[2.0, 0], [0, 4]])[1, 1]))
";
    ringfence(&["run", "--memory", "1G", "-c", code]).said(0, "71786 0.25\n");
}

#[test]
fn node_finds_a_package_that_was_put() {
    let dir = scratch();
    write(dir.path(), "node_modules/left/package.json", r#"{"name":"left","main":"lib/main.js"}"#);
    write(dir.path(), "node_modules/left/lib/main.js", "module.exports = n => '-'.repeat(n);");
    let file = format!("{}:node_modules", shown(dir.path().join("node_modules")));
    let code = "console.log(require('left')(3)); setTimeout(() => console.log('later'), 10)";
    let ran = ringfence(&["run", "--memory", "1G", "--lang", "js", "--file", &file, "-c", code]);
    ran.said(0, "---\nlater\n");
}

#[test]
fn git_clones_a_local_repository() {
    let dir = scratch();
    let git = |args: &[&str]| {
        let done = command("git")
            .current_dir(dir.path())
            .args(["-c", "user.name=t", "-c", "user.email=t@example.com"])
            .args(args)
            .stdout(Stdio::null())
            .status();
        assert!(done.expect("git is installed").success(), "{args:?}");
    };
    git(&["init", "-q", "-b", "main", "repo"]);
    write(dir.path(), "repo/hello.txt", "hello\n");
    git(&["-C", "repo", "add", "."]);
    git(&["-C", "repo", "commit", "-q", "-m", "first"]);
    let file = format!("{}:repo", shown(dir.path().join("repo")));
    let script = "git clone -q repo copy && cat copy/hello.txt && git -C copy log --format=%s";
    ringfence(&["run", "--file", &file, "--", "sh", "-c", script]).said(0, "hello\nfirst\n");
}

#[test]
fn gcc_compiles_and_the_result_runs() {
    let dir = scratch();
    let source = write(
        dir.path(),
        "main.c",
        "#include <stdio.h>\n#include <pthread.h>\nstatic void *f(void *p){*(int*)p+=41;return 0;}\n\
         int main(void){int n=1;pthread_t t;pthread_create(&t,0,f,&n);pthread_join(t,0);\
         printf(\"%d\\n\",n);}\n",
    );
    let script = "gcc -O1 -pthread -o main main.c && ./main";
    ringfence(&["run", "--file", &source, "--", "sh", "-c", script]).said(0, "42\n");
}

#[test]
fn threads_and_subprocess_pipelines_work() {
    let code = "
import threading, subprocess
total = []
threads = [threading.Thread(target=lambda n=n: total.append(n)) for n in range(20)]
[t.start() for t in threads]; [t.join() for t in threads]
text = subprocess.run('printf \"b\\na\\n\" | sort | tr a-z A-Z', shell=True, capture_output=True, text=True)
print(sum(total), text.stdout.split())
";
    ringfence(&["run", "-c", code]).said(0, "190 ['A', 'B']\n");
}

#[test]
fn signals_reach_handlers() {
    let code = "
import os, signal
signal.signal(signal.SIGUSR1, lambda *_: print('handled', flush=True))
os.kill(os.getpid(), signal.SIGUSR1)
";
    ringfence(&["run", "-c", code]).said(0, "handled\n");
}

#[test]
fn deep_recursion_ends_in_the_language_s_own_error() {
    ringfence(&["run", "-c", "def f(): return f()\nf()"]).failed(1, &["RecursionError"]);
    let deep = "import sys; sys.setrecursionlimit(30_000)\ndef f(n): return n and f(n - 1)\nprint(f(20_000))";
    ringfence(&["run", "-c", deep]).said(0, "0\n");
}

#[test]
fn every_language_runs_from_code_and_from_a_file() {
    let dir = scratch();
    for (name, code, lang) in [
        ("a.py", "import sys; print(sys.argv[1:])", "python"),
        ("a.js", "console.log(process.argv.slice(2))", "javascript"),
        ("a.sh", "echo \"[ '$1', '$2' ]\"", "bash"),
    ] {
        let file = write(dir.path(), name, code);
        let by_file = ringfence(&["run", &file, "--", "-x", "a b"]);
        let by_code = ringfence(&["run", "--lang", lang, "-c", code, "--", "-x", "a b"]);
        assert_eq!((by_file.code, by_file.stderr.as_str()), (Some(0), ""), "{name}");
        assert!(by_file.text().contains("'-x', 'a b'"), "{name}: {}", by_file.text());
        assert_eq!(by_file.stdout, by_code.stdout, "{name}");
    }
}

#[test]
fn prepared_interpreters_answer_like_cold_ones() {
    let python = ringfence(&["run", "--isolation", "zygote", "-c", "print(6*7)"]);
    python.said(0, "42\n");
    let node = ringfence(&["run", "--isolation", "warm", "--lang", "js", "-c", "console.log(6*7)"]);
    node.said(0, "42\n");
    let command = ringfence(&["run", "--isolation", "zygote", "--", "true"]);
    command.failed(2, &["only python has a zygote"]);
}
