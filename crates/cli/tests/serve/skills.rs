//! Skill folders beside a server that runs.

use serde_json::json;

use crate::support::{Place, command, ran, skill, until};

#[test]
fn a_skill_that_is_added_while_it_runs_can_be_called() {
    let place = Place::new();
    let server = place.serve();
    server.client(&["call", "doubles", "n:=21"]).failed(2, &["doubles"]);
    skill(&place.skills(), "doubles", "none", "def run(n):\n    return {'n': n * 2}\n");
    until("the skill is listed", || server.client(&["tools", "doubles"]).code == Some(0));
    assert_eq!(server.client(&["call", "doubles", "n=21"]).worked().stdout, "{\"n\":42}\n");
    let shown = server.client(&["tools", "doubles"]).worked().stdout;
    assert!(shown.contains("A skill of a test.") && shown.contains("takes {"), "{shown}");
}

#[test]
fn a_folder_overrides_the_skill_of_the_binary() {
    let place = Place::new();
    let own = "def run(**arguments):\n    return {'own': True}\n";
    skill(&place.skills(), "text_summarize", "none", own);
    let server = place.serve();
    assert_eq!(server.client(&["call", "text_summarize"]).worked().stdout, "{\"own\":true}\n");
}

#[test]
fn a_broken_skill_is_listed_with_its_reasons() {
    let place = Place::new();
    let broken = place.skills().join("broken");
    std::fs::create_dir(&broken).unwrap();
    std::fs::write(broken.join("skill.yaml"), "name: broken\nversion: x\n").unwrap();
    let server = place.serve();
    assert_eq!(server.banner["broken"][0]["name"], "broken");
    let listed = server.client(&["tools"]).worked();
    assert!(listed.stdout.contains("echo"), "{listed:?}");
    for part in ["broken: broken: ", "version", "schema.json", "handler"] {
        assert!(listed.stderr.contains(part), "no `{part}` in {}", listed.stderr);
    }
}

#[test]
fn the_log_has_a_line_per_call_and_names_each_tool_that_changed() {
    let place = Place::new();
    let server = place.serve();
    server.call("echo", &json!({"text": "between us"}));
    let log = || std::fs::read_to_string(place.path("log")).unwrap();
    skill(&place.skills(), "late", "none", "def run():\n    return {}\n");
    let is_told = |change: &str| {
        log().lines().any(|line| line.contains("tool=\"late\"") && line.contains(change))
    };
    until("the new tool is in the log", || is_told("added"));
    std::fs::remove_dir_all(place.skills().join("late")).unwrap();
    until("and that it is gone", || is_told("removed"));
    let log = log();
    let calls: Vec<_> = log.lines().filter(|line| line.contains(" call tool=echo")).collect();
    assert_eq!(calls.len(), 1, "{log}");
    assert!(calls[0].contains("state=\"finished\"") && calls[0].contains("call_id="), "{log}");
    assert!(!log.contains("between us"), "{log}");
}

#[test]
fn hints_can_be_pasted() {
    let place = Place::new();
    let server = place.serve();
    let hint = "hint: see what it takes: ringfence tools echo\n";
    server.client(&["call", "echo", "txt=x"]).failed(2, &[hint]);
    let caller = server.client(&["key", "create", "agent", "--scope", "call"]).worked().stdout;
    let mut list = command(&["calls", "--data", &server.data]);
    let hint = "ringfence key create my-read-key --scope read\n";
    ran(list.env("RINGFENCE_KEY", caller.trim())).failed(2, &[hint]);
    let versions = "tool `echo` has no version `9.9.9`; there is ";
    server.client(&["call", "echo", "--tool-version", "9.9.9", "text=x"]).failed(2, &[versions]);
    for list in [&["tools"][..], &["key", "list"], &["calls"], &["audit"]] {
        let shown = server.client(list).worked().stdout;
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{list:?}: {shown}");
    }
}
