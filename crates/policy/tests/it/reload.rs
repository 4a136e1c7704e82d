//! Reload of a folder of rules while it is in force.

use std::{fs, path::Path, sync::Arc};

use ringfence_policy::{Engine, Folder, State, contract, contract::document, decide};
use ringfence_types::Verdict;
use tempfile::tempdir;

fn write(folder: &Path, decision: &str) {
    let text = format!("package ringfence\ndecision := {decision}\n");
    fs::write(folder.join("rules.rego"), text).expect("a rule");
}

/// Two reads, because the first one may see a half-written folder.
fn look(folder: &Folder) {
    folder.look();
    folder.look();
}

async fn verdict(folder: &Folder) -> Verdict {
    decide(folder, &document(&[], "{}")).await.decision().verdict
}

#[tokio::test]
async fn a_folder_keeps_the_contract() {
    let dir = tempdir().expect("temp dir");
    write(dir.path(), "true");
    contract::run(&Folder::open("rego", dir.path()).expect("rules")).await;
}

#[tokio::test]
async fn changed_rules_are_in_force_once_they_are_found_twice() {
    let dir = tempdir().expect("temp dir");
    write(dir.path(), "false");
    let folder = Folder::open("rego", dir.path()).expect("rules");
    let (before, changed) = (folder.revision(), folder.changed());
    look(&folder);
    assert_eq!((folder.revision(), folder.reloads()), (before, (0, 0)));
    write(dir.path(), "true");
    folder.look();
    assert_eq!(verdict(&folder).await, Verdict::Deny, "half of a change may be there");
    folder.look();
    assert_eq!(verdict(&folder).await, Verdict::Allow);
    assert_ne!(folder.revision(), before);
    assert_eq!(folder.reloads(), (1, 0));
    assert!(changed.has_changed().expect("it lives"));
}

#[tokio::test]
async fn rules_that_cannot_be_used_change_nothing_but_the_status() {
    let dir = tempdir().expect("temp dir");
    write(dir.path(), "true");
    let folder = Folder::open("rego", dir.path()).expect("rules");
    let good = folder.revision();
    for (name, text) in [
        ("rules.rego", "package ringfence\ndecision := startwith(1)"),
        ("rules.rego", "this is not Rego"),
        ("policy.reg", "misspelt"),
        ("data.json", "{"),
    ] {
        fs::write(dir.path().join(name), text).expect("a file");
        look(&folder);
        look(&folder);
        assert_eq!((verdict(&folder).await, folder.revision()), (Verdict::Allow, good), "{name}");
        let status = folder.status().remove(0);
        assert_eq!(status.state, State::Stale, "{name}");
        assert!(status.problems[0].starts_with(name), "{:?}", status.problems);
        fs::remove_file(dir.path().join(name)).expect("it is there");
        write(dir.path(), "true");
        look(&folder);
        assert_eq!(folder.status()[0].state, State::Well, "{name} is gone");
    }
    assert_eq!(folder.reloads(), (0, 4));
    fs::remove_dir_all(dir.path()).expect("the whole folder");
    look(&folder);
    assert_eq!((verdict(&folder).await, folder.status()[0].state), (Verdict::Allow, State::Stale));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_decision_is_missed_or_mixed_while_rules_are_replaced() {
    let dir = tempdir().expect("temp dir");
    write(dir.path(), r#"{"decision": "allow", "reasons": [{"rule": "a", "message": "0"}]}"#);
    let folder = Arc::new(Folder::open("rego", dir.path()).expect("rules"));
    let stop = Arc::new(tokio::sync::Notify::new());
    let asked = stop.clone();
    let watching = tokio::spawn(folder.clone().watch(async move { asked.notified().await }));
    for round in 1..=3 {
        let message = format!(r#"[{{"rule": "a", "message": "{round}"}}]"#);
        write(dir.path(), &format!(r#"{{"decision": "allow", "reasons": {message}}}"#));
        super::until("the new rules are in force", async || {
            let answer = folder.evaluate(&document(&[], "{}")).await.expect("always an answer");
            assert_eq!(answer.verdict, Verdict::Allow);
            answer.reasons[0].message == round.to_string() && answer.policy == folder.revision()
        })
        .await;
    }
    stop.notify_one();
    watching.await.expect("it ends when told");
}
