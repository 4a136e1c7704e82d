//! Arguments are data, whatever they look like, and no input makes us panic.

use std::{ffi::OsString, os::unix::ffi::OsStringExt, process::Stdio};

use proptest::prelude::*;

use crate::support::{BINARY, Ran, command, ringfence, scratch, write};

#[test]
fn arguments_are_data() {
    let odd =
        ["-x", "--json", "; echo no", "$(echo no)", "`echo no`", "", " ", "*", "a\nb", "\\", "'\""];
    let mut args = vec!["run", "--", "printf", "[%s]"];
    args.extend(odd);
    let expected: String = odd.iter().map(|arg| format!("[{arg}]")).collect();
    ringfence(&args).said(0, &expected);
}

#[test]
fn arguments_that_are_no_text_reach_a_command_exactly() {
    let odd = OsString::from_vec(vec![b'a', 0xff, b'b']);
    let output =
        command(BINARY).args(["run", "--", "printf", "%s"]).arg(odd).stdin(Stdio::null()).output();
    let ran: Ran = output.expect("the binary starts").into();
    assert_eq!((ran.code, ran.stdout.as_slice()), (Some(0), &b"a\xffb"[..]));
}

#[test]
fn code_may_begin_with_a_dash() {
    ringfence(&["run", "-c", "-1; print('ok')"]).said(0, "ok\n");
}

#[test]
fn variables_are_set_and_nothing_of_ours_leaks() {
    let output = command(BINARY)
        .args(["run", "--env", "GIVEN=a=b", "--env", "EMPTY=", "--", "env"])
        .env("SECRET_OF_OURS", "x")
        .stdin(Stdio::null())
        .output();
    let ran: Ran = output.expect("the binary starts").into();
    let lines: Vec<&str> = ran.text().lines().collect();
    assert!(lines.contains(&"GIVEN=a=b") && lines.contains(&"EMPTY="), "{lines:?}");
    assert!(!ran.text().contains("SECRET_OF_OURS"));
}

#[test]
fn a_file_that_does_not_tell_its_language_is_asked_about() {
    let dir = scratch();
    let file = write(dir.path(), "prog", "print(1)");
    ringfence(&["run", &file]).failed(2, &["does not tell its language; give --lang"]);
    let file = write(dir.path(), "prog2", "#!/usr/bin/env python3\nprint(1)");
    ringfence(&["run", &file]).said(0, "1\n");
}

#[test]
fn a_file_that_is_not_there_hints_at_commands() {
    ringfence(&["run", "ls"]).failed(2, &["cannot read `ls`", "hint: ", "ringfence run -- ls"]);
}

fn word() -> impl Strategy<Value = OsString> {
    let flags = prop::sample::select(vec![
        "run",
        "--memory",
        "--timeout",
        "--pids",
        "--cpu",
        "--disk",
        "--file",
        "--out",
        "--env",
        "--lang",
        "--isolation",
        "--root",
        "--json",
        "-c",
        "shell",
        "image",
        "import",
        "list",
        "rm",
        "completions",
        "doctor",
        "--help",
        "--data",
        "--only",
    ]);
    let bytes = prop::collection::vec(1_u8..=255, 0..12);
    prop_oneof![3 => flags.prop_map(OsString::from), 2 => bytes.prop_map(OsString::from_vec)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Without `--` no command is complete enough to run anything by accident but bytes as a file.
    #[test]
    fn random_words_never_make_us_panic(words in prop::collection::vec(word(), 0..8)) {
        let dir = scratch();
        let output = command(BINARY)
            .args(&words)
            .current_dir(dir.path())
            .env("RINGFENCE_DATA", dir.path().join("data"))
            .stdin(Stdio::null())
            .output()
            .expect("the binary starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        prop_assert!(output.status.code().is_some(), "{words:?}: {:?}", output.status);
        prop_assert!(!stderr.contains("panicked"), "{words:?}: {stderr}");
    }
}
