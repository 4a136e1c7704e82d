//! `doctor`, `selftest`, `image`, `completions`.

use crate::support::{Ran, command, ringfence, scratch, shown, write};

#[test]
fn the_doctor_runs_a_sandbox_and_gives_a_verdict() {
    let ran = ringfence(&["doctor"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let text = ran.text();
    assert!(text.contains("seccomp") && text.contains("A sandbox that was really run"), "{text}");
    assert!(
        text.lines().last().is_some_and(|line| line.starts_with("verdict: sandboxes run here"))
    );
}

#[test]
fn the_doctor_s_object_agrees_with_its_exit_code() {
    let ran = ringfence(&["doctor", "--json"]);
    let object = ran.json();
    assert_eq!(object["can_run"], ran.code == Some(0));
    assert!(object["host"]["findings"].as_array().is_some_and(|all| all.len() > 10));
    assert!(object["trial"]["layers"]["seccomp"]["active"].is_string(), "{object}");
}

#[test]
fn chosen_attacks_are_held_and_the_controls_work() {
    let ran = ringfence(&["selftest", "--hostile", "--only", "F24", "--only", "K05.bpf", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let object = ran.json();
    assert_eq!(object["passed"], true);
    let cases = object["cases"].as_array().expect("cases");
    assert!(cases.iter().any(|case| case["id"] == "K05.bpf" && case["verdict"] == "held"));
}

#[test]
fn an_unknown_attack_is_misuse() {
    let ran = ringfence(&["selftest", "--hostile", "--only", "Z99"]);
    ran.failed(2, &["no case or group is named `Z99`"]);
}

fn image(data: &str, args: &[&str]) -> Ran {
    let mut all = vec!["image"];
    all.extend(args);
    all.extend(["--data", data]);
    ringfence(&all)
}

#[test]
fn an_image_is_imported_used_listed_and_removed() {
    let dir = scratch();
    let data = shown(dir.path().join("data"));
    let root = dir.path().join("root");
    write(&root, "marker", "inside\n");
    write(&root, "bin/cat", "");
    std::fs::copy("/bin/busybox", root.join("bin/cat")).expect("busybox is installed");
    let root = shown(root);
    image(&data, &["list"]).failed(0, &["no images yet; import one: ringfence image import"]);
    image(&data, &["import", "tiny", &root, "--copy"]).failed(0, &["imported `tiny`"]);
    let list = image(&data, &["list"]);
    assert!(list.text().starts_with("NAME") && list.text().contains("tiny"), "{}", list.text());
    image(&data, &["import", "tiny", &root]).failed(2, &["exists", "hint: ", "--replace"]);
    let run = ringfence(&["run", "--data", &data, "--root", "tiny", "--", "/bin/cat", "/marker"]);
    run.said(0, "inside\n");
    image(&data, &["rm", "tiny"]).said(0, "");
    image(&data, &["rm", "tiny"]).failed(2, &["image not found"]);
    let gone = ringfence(&["run", "--data", &data, "--root", "tiny", "--", "true"]);
    gone.failed(2, &["--root: image `tiny`: image not found"]);
}

#[test]
fn a_broken_image_hides_no_other_and_can_be_removed() {
    let dir = scratch();
    let data = shown(dir.path().join("data"));
    let root = shown(dir.path().to_path_buf().join("root"));
    write(dir.path(), "root/marker", "inside\n");
    for name in ["good", "spoilt"] {
        image(&data, &["import", name, &root, "--copy"]).failed(0, &["imported"]);
    }
    write(dir.path(), "data/images/spoilt/image.json", "{");
    std::fs::create_dir(dir.path().join("data/images/foreign")).expect("a directory");
    let list = image(&data, &["list", "--json"]);
    list.failed(0, &["warning: image `foreign`", "warning: image `spoilt`", "image rm spoilt"]);
    assert_eq!(list.json()["name"], "good");
    for name in ["spoilt", "foreign"] {
        image(&data, &["rm", name]).said(0, "");
    }
    assert_eq!(image(&data, &["list"]).stderr, "");
}

#[test]
fn a_source_that_is_not_there_is_named() {
    let data = shown(scratch().path().join("data"));
    let ran = image(&data, &["import", "x", "/no/such/source"]);
    ran.failed(2, &["image `x`: the source `/no/such/source` cannot be read", "No such file"]);
}

#[test]
fn what_an_import_left_out_is_told() {
    let dir = scratch();
    let data = shown(dir.path().join("data"));
    let root = dir.path().join("root");
    write(&root, "marker", "inside\n");
    let made = command("mkfifo").arg(root.join("pipe")).status().expect("mkfifo is installed");
    assert!(made.success());
    let root = shown(root);
    let told = ["note: pipe: FIFO left out\n", "imported `noted`"];
    image(&data, &["import", "noted", &root, "--copy"]).failed(0, &told);
    let again = ["import", "noted", &root, "--copy", "--replace", "--json"];
    let object = image(&data, &again).json();
    assert_eq!((&object["name"], &object["entries"]), (&"noted".into(), &1.into()));
    assert_eq!(object["notes"], serde_json::json!(["pipe: FIFO left out"]));
    let taken = image(&data, &["import", "noted", &root, "--json"]);
    assert_eq!((taken.code, &taken.json()["outcome"]), (Some(2), &"failed".into()));
}

#[test]
fn a_name_that_is_a_path_is_no_image() {
    let dir = scratch();
    let data = shown(dir.path().join("data"));
    image(&data, &["import", "../up", "/usr"]).failed(2, &["a name is 1 to 64 of"]);
    image(&data, &["rm", ".."]).failed(2, &["a name is 1 to 64 of"]);
}

#[test]
fn shells_get_their_completions() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = ringfence(&["completions", shell]);
        assert_eq!(ran.code, Some(0));
        assert!(ran.text().contains("selftest"), "{shell}");
    }
}

#[test]
fn the_version_is_the_package_s() {
    ringfence(&["--version"]).said(0, concat!("ringfence ", env!("CARGO_PKG_VERSION"), "\n"));
}
