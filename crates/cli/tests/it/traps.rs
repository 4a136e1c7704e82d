//! F30, R16: Files that wait to be run by a user, and sources that never end.

use std::{path::Path, process::Stdio};

use crate::support::{BINARY, Ran, command, json, ringfence, scratch, shown, write};

/// Files of a workspace that the user's tools may run; each would run `touch`.
const TRAPS: &str = r#"
git init -q -b main traps && cd traps
printf '#!/bin/sh\ntouch "%s"\n' "$1" > trap.sh && chmod 755 trap.sh
for hook in post-checkout post-index-change pre-commit; do cp trap.sh .git/hooks/$hook; done
git config core.fsmonitor "$2/trap.sh"; git config core.hooksPath "$2/.git/hooks"
printf 'open("%s", "w")\n' "$1" > sitecustomize.py; cp sitecustomize.py usercustomize.py
cp sitecustomize.py json.py; cp sitecustomize.py conftest.py
printf 'touch "%s"\n' "$1" > .envrc; cp .envrc .bashrc; cp .envrc .profile
printf 'script-shell=%s/trap.sh\n' "$2" > .npmrc
mkdir .cargo && printf '[build]\nrustc-wrapper = "%s/trap.sh"\n' "$2" > .cargo/config.toml
"#;

/// Runs it where the traps are, with what would spring them in the environment.
fn among(place: &Path, program: &str, args: &[&str]) -> Ran {
    let output = command(program)
        .args(args)
        .current_dir(place)
        .env("HOME", place)
        .env("PYTHONPATH", place)
        .env("BASH_ENV", place.join(".bashrc"))
        .stdin(Stdio::null())
        .output();
    output.expect("it starts").into()
}

#[test]
fn nothing_that_a_workspace_holds_is_run_on_the_host() {
    let dir = scratch();
    let (canary, place) = (dir.path().join("canary"), dir.path().join("out"));
    let out = format!("traps/:{}", shown(place.clone()));
    let (told, beside) = (shown(canary.clone()), shown(place.clone()));
    ringfence(&["run", "--out", &out, "--", "sh", "-c", TRAPS, "sh", &told, &beside]).said(0, "");
    let file = format!("{beside}/:");
    let again = format!(".cargo/:{}", shown(dir.path().join("again")));
    for args in [
        &["run", "--file", &file, "--out", &again, "-c", "print(1)"][..],
        &["run", "--lang", "bash", "--isolation", "cold", "-c", "echo 1"],
        &["run", "--lang", "javascript", "-c", "1"],
        &["doctor"],
        &["image", "list"],
    ] {
        let ran = among(&place, BINARY, args);
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        assert!(!canary.exists(), "{args:?} sprang a trap");
    }
    // The control: others do run it.
    for (program, args) in [
        ("/usr/bin/python3", &["-c", "pass"][..]),
        ("/usr/bin/git", &["status"]),
        ("/bin/bash", &["-c", ":"]),
    ] {
        among(&place, program, args);
        assert!(canary.exists(), "{program} is not caught by its trap");
        std::fs::remove_file(&canary).expect("it is there");
    }
}

#[test]
fn a_source_without_end_meets_a_limit_of_the_compiler_s_sandbox() {
    let dir = scratch();
    let bomb = "template<int n> struct A { A<n + 1> a; A<n + 2> b; }; A<0> a;";
    for (name, source, compiler) in [
        ("random.c", "#include </dev/random>\nint main(void) {}\n", "gcc"),
        ("zero.c", "#include \"/dev/zero\"\nint main(void) {}\n", "gcc"),
        (
            "itself.c",
            "#include \"itself.c\"\n#include \"itself.c\"\n",
            "gcc -fmax-include-depth=50000",
        ),
        ("bomb.cc", bomb, "g++ -ftemplate-depth=1000000"),
    ] {
        let file = write(dir.path(), name, source);
        let script = format!("exec {compiler} -o /dev/null {name}");
        let limits = ["--timeout", "5s", "--memory", "128M", "--disk", "16M"];
        let rest = ["--file", &file, "--", "sh", "-c", &script];
        let (_, object) = json(&[&limits[..], &rest[..]].concat());
        // The compiler may give up by itself; what it may not do is to succeed or to go on.
        let ended = object["outcome"] == "over_limit" || object["exit_code"].as_i64() > Some(0);
        assert!(ended, "{name}: {object}");
        let peak = object["usage"]["memory_peak_bytes"].as_u64().expect("a peak");
        assert!(peak <= 128 << 20, "{name}: {object}");
    }
}
