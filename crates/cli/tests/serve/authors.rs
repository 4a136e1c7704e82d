//! `ringfence skill`: from a new folder to a call, and what is said about folders with faults.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::support::{Place, Ran, command, ran, shown};

/// A command in this directory.
fn within(folder: &Path, args: &[&str]) -> Ran {
    ran(command(args).current_dir(folder))
}

/// A new skill, as `skill new` makes it.
fn new(place: &Place) -> std::path::PathBuf {
    let folder = place.path("authored");
    fs::create_dir(&folder).expect("a folder");
    within(&folder, &["skill", "new", "word_count"]).worked();
    folder.join("word_count")
}

fn replace(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).expect("a file");
    assert!(text.contains(from), "{from} in {text}");
    fs::write(file, text.replace(from, to)).expect("a file");
}

#[test]
fn a_new_skill_is_checked_tested_registered_called_and_removed() {
    let place = Place::new();
    let folder = new(&place);
    let path = shown(&folder);
    let again = within(folder.parent().expect("a folder"), &["skill", "new", "word_count"]);
    again.failed(2, &["cannot make `word_count`"]);
    within(place.path("").as_path(), &["skill", "new", "Not A Name"]).failed(2, &["Not A Name"]);
    let checked = ran(&mut command(&["skill", "check", &path])).worked();
    assert_eq!(checked.stdout, "word_count 0.1.0 is valid, with 1 examples\n");
    let tested = ran(&mut command(&["skill", "test", &path])).worked();
    assert!(tested.stdout.starts_with("passed  example 0 ("), "{tested:?}");
    assert!(tested.stdout.ends_with("1 passed, 0 failed\n"), "{tested:?}");
    let server = place.serve();
    server.client(&["skill", "push", &path]).failed(0, &["registered word_count 0.1.0, sha256:"]);
    let listed = server.client(&["skill", "ls"]).worked().stdout;
    assert!(listed.lines().any(|line| line.starts_with("word_count ")), "{listed}");
    assert!(listed.lines().all(|line| line.chars().count() <= 80), "{listed}");
    let called = server.client(&["call", "word_count", "text=a b c"]).worked();
    assert_eq!(called.json(), json!({"words": 3}));
    replace(&folder.join("handler.py"), "len(text.split())", "0");
    server.client(&["skill", "push", &path]).failed(2, &["word_count", "taken"]);
    server.client(&["skill", "rm", "word_count"]).failed(0, &["removed word_count 0.1.0"]);
    server.client(&["call", "word_count", "text=a"]).failed(2, &["there is no tool `word_count`"]);
    server.client(&["skill", "rm", "word_count"]).failed(2, &["error: "]);
}

#[test]
fn all_problems_of_a_folder_are_named_at_once() {
    let place = Place::new();
    let folder = new(&place);
    let check = || ran(&mut command(&["skill", "check", &shown(&folder), "--json"]));
    let problems = || {
        let checked = check();
        assert_eq!(checked.code, Some(1), "{checked:?}");
        checked.json()["problems"].as_array().expect("a list").clone()
    };
    let has = |problems: &[Value], part: &str| {
        assert!(
            problems.iter().any(|one| one.as_str().is_some_and(|one| one.contains(part))),
            "no {part} in {problems:?}"
        );
    };
    replace(&folder.join("handler.py"), "return {", "return ) {");
    has(&problems(), "handler.py line 6: unmatched");
    replace(&folder.join("skill.yaml"), "output: {\"words\": 5}", "output: {\"words\": \"5\"}");
    has(&problems(), "examples[0].output/words: ");
    replace(&folder.join("skill.yaml"), "safety_flags:", "safety_flag:");
    replace(&folder.join("skill.yaml"), "  - input:", "  - inputs:");
    fs::write(folder.join("schema.json"), "{}").expect("a file");
    let all = problems();
    for part in [
        "did you mean `safety_flags`",
        "`input` is missing",
        "`output` is missing",
        "examples[0]: ",
    ] {
        has(&all, part);
    }
    ran(&mut command(&["skill", "test", &shown(&folder)]))
        .failed(2, &["cannot be used", "safety_flags"]);
    ran(&mut command(&["skill", "check", "/gone"])).failed(1, &["1 problems"]);
}

#[test]
fn an_example_that_gives_something_else_fails_with_the_difference() {
    let place = Place::new();
    let folder = new(&place);
    let more = "  - {input: {text: \"\"}, output: {}, match: subset}\n  \
                - {input: {text: a b}, output: {words: 3}}\n  \
                - {input: {text: boom}, output: {words: 1}}\n";
    let manifest = folder.join("skill.yaml");
    let text = fs::read_to_string(&manifest).expect("a file");
    fs::write(&manifest, text + more).expect("a file");
    let fails = "    if text == \"boom\":\n        raise ValueError(\"no\")\n    return {";
    replace(&folder.join("handler.py"), "    return {", fails);
    // The rules and addresses of a server on this host have no part in it.
    let mut test = command(&["skill", "test", &shown(&folder)]);
    test.env("RINGFENCE_POLICY", "/gone").env("RINGFENCE_LISTEN", "nonsense");
    let tested = ran(&mut test);
    assert_eq!(tested.code, Some(1), "{tested:?}");
    for part in [
        "passed  example 0 (",
        "passed  example 1 (",
        "failed  example 2 (",
        "        /words: expected 3, found 2\n",
        "failed  example 3 (",
        "ValueError: no",
        "\n2 passed, 2 failed\n",
    ] {
        assert!(tested.stdout.contains(part), "no {part} in {tested:?}");
    }
}

#[test]
fn the_examples_of_the_skills_that_ship_are_true() {
    for name in ["compact_memory", "extract_entities", "text_summarize"] {
        let folder = format!("{}/../../skills/{name}", env!("CARGO_MANIFEST_DIR"));
        let tested = ran(&mut command(&["skill", "test", &folder, "--json"])).worked();
        let last = tested.stdout.lines().last().expect("a line");
        let counts: Value = serde_json::from_str(last).expect("JSON");
        assert!(counts["passed"].as_u64() > Some(0), "{name}: {tested:?}");
    }
}
