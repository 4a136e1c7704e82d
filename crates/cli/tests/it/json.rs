//! The one object: its fields, in order, with what varies replaced.

use expect_test::expect;
use serde_json::Value;

use crate::support::{json, ringfence};

/// Numbers that are different each time become their type, walls their state.
fn steady(value: &mut Value) {
    for part in ["usage", "timings"] {
        let fields = value[part].as_object_mut().expect("an object");
        fields
            .values_mut()
            .for_each(|field| *field = if field.is_number() { "n".into() } else { "?".into() });
    }
    for state in value["layers"].as_object_mut().expect("an object").values_mut() {
        *state = state.as_object().and_then(|state| state.keys().next().cloned()).into();
    }
}

#[test]
fn the_object_has_these_fields() {
    let (code, mut object) =
        json(&["--", "sh", "-c", "echo hi; echo oops >&2; echo '{\"a\":1}' >&3; exit 3"]);
    assert_eq!(code, Some(3));
    steady(&mut object);
    expect![[r#"
        {
          "exit_code": 3,
          "hints": [],
          "isolation": "cold",
          "layers": {
            "cgroup_cpu": "active",
            "cgroup_memory": "active",
            "cgroup_namespace": "active",
            "cgroup_pids": "active",
            "ipc_namespace": "active",
            "landlock": "active",
            "mount_namespace": "active",
            "network_namespace": "active",
            "no_capabilities": "active",
            "own_uid": "active",
            "pid_namespace": "active",
            "private_proc": "active",
            "rlimits": "active",
            "seccomp": "active",
            "user_namespace": "active",
            "uts_namespace": "active"
          },
          "limit": null,
          "outcome": "exited",
          "result": {
            "a": 1
          },
          "signal": null,
          "stderr": "oops\n",
          "stdout": "hi\n",
          "timings": {
            "run_secs": "n",
            "setup_secs": "n",
            "total_secs": "n"
          },
          "truncated": {
            "result": null,
            "stderr": null,
            "stdout": null
          },
          "usage": {
            "cpu_system_secs": "n",
            "cpu_user_secs": "n",
            "io_read_bytes": "n",
            "io_written_bytes": "n",
            "memory_peak_bytes": "n",
            "processes": "n",
            "wall_secs": "n"
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&object).expect("an object"));
}

#[test]
fn the_fields_come_in_the_order_of_the_reference() {
    let ran = ringfence(&["run", "--json", "--", "true"]);
    let names = [
        "outcome",
        "exit_code",
        "signal",
        "limit",
        "hints",
        "stdout",
        "stderr",
        "truncated",
        "result",
        "usage",
        "layers",
        "isolation",
        "timings",
    ];
    let places = names.map(|name| ran.text().find(&format!("\"{name}\":")).expect(name));
    assert!(places.is_sorted(), "{}", ran.text());
}

#[test]
fn a_signal_and_bytes_that_are_no_text_are_told_exactly() {
    let (_, object) = json(&["--", "sh", "-c", "printf 'a\\377'; kill -9 $$"]);
    assert_eq!(object["outcome"], "signaled");
    assert_eq!((&object["signal"], &object["exit_code"]), (&9.into(), &Value::Null));
    assert_eq!(object["stdout"], "a\u{fffd}");
    assert_eq!(object["stdout_base64"], "Yf8=");
    assert!(object.get("stderr_base64").is_none());
}

#[test]
fn a_result_cannot_be_forged_by_printing() {
    let (_, object) = json(&["-c", "print('{\"result\": 1}')"]);
    assert_eq!(object["result"], Value::Null);
}

#[test]
fn misuse_is_an_object_too() {
    let ran = ringfence(&["run", "--json", "--pids", "x", "--", "true"]);
    assert_eq!(ran.code, Some(2));
    assert_eq!(ran.json()["outcome"], "failed");
    assert!(ran.stderr.starts_with("error: --pids"));
}
