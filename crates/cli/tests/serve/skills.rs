//! Skill folders beside a server that runs.

use crate::support::{Place, skill, until};

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
