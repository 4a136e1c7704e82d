//! `ringfence models`: weights from a folder, and errors that name the next step.

use crate::support::ringfence;

#[test]
fn weights_are_fetched_from_a_folder_verified_and_removed() {
    let test = "weights_are_fetched_from_a_folder_verified_and_removed";
    let Some(weights) = ringfence_testkit::minilm(test) else { return };
    let folder = weights.join("all-MiniLM-L6-v2");
    let data = tempfile::tempdir().unwrap();
    let data = data.path().to_str().unwrap();
    let run = |args: &[&str]| ringfence(&[&["models"], args, &["--data", data]].concat());
    let state = || {
        let listed = run(&["list", "--json"]);
        let first = listed.text().lines().next().unwrap_or_default().to_owned();
        let first: serde_json::Value = serde_json::from_str(&first).unwrap();
        assert_eq!(first["name"], "all-MiniLM-L6-v2");
        first["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(state(), "missing");
    let fetched = run(&["fetch", "minilm", "--from", folder.to_str().unwrap()]);
    assert_eq!(fetched.code, Some(0), "{fetched:?}");
    assert_eq!(state(), "ready");
    assert!(run(&["verify"]).text().contains("all digests agree"));
    assert_eq!(run(&["rm", "minilm"]).code, Some(0));
    assert_eq!(state(), "missing");
}

#[test]
fn problems_are_told_with_the_next_step() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path().to_str().unwrap();
    let failed = |args: &[&str], wanted: &str| {
        ringfence(&[&["models"], args, &["--data", data]].concat()).failed(2, &[wanted]);
    };
    failed(&["fetch", "gpt-9"], "ringfence models list");
    failed(&["fetch", "paraphrase"], "--sha256");
    failed(&["fetch", "--from", "/no/such/folder"], "/no/such/folder");
    failed(&["verify"], "ringfence models fetch");
    failed(&["rm", "minilm"], "not installed");
}
