//! Skill folders on disk.

use std::{fs, os::unix::fs::symlink};

use expect_test::expect;
use ringfence_registry::{Config, EmbeddedSkill, Error, Registry, Runs};
use ringfence_types::{Json, Origin};

use crate::support::{Place, SCHEMA, broken, builtin, listed, yaml};

#[test]
fn a_folder_becomes_a_tool_with_compiled_schemas() {
    let place = Place::new();
    let folder = place.write("counter", "count_words", "1.0.0");
    fs::create_dir(folder.join("data")).unwrap();
    fs::write(folder.join("data/words.txt"), "a").unwrap();
    let registry = place.open();
    let catalogue = registry.catalogue();
    let entry = catalogue.get("count_words", None).unwrap();
    assert_eq!(entry.tool.origin, Origin::Folder);
    assert_eq!(entry.folder.as_deref(), Some(folder.as_path()));
    assert_eq!(entry.tool.created_at.to_string(), "2023-11-14T22:13:20.000000Z");
    let Runs::Python { code, module, function, files } = &entry.runs else { panic!("not Python") };
    assert!(code.contains("def run"));
    assert_eq!((module.as_str(), function.as_str()), ("handler", "run"));
    let paths: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["data/words.txt", "schema.json", "skill.yaml"]);
    let json = |text: &str| Json::parse(text.as_bytes()).unwrap();
    assert_eq!(entry.check_input(&json(r#"{"text": 1}"#)), Ok(()));
    assert_eq!(entry.check_input(&json("{}")).unwrap_err()[0].keyword, "required");
    let output = entry.check_output(&json(r#"{"count": "x"}"#)).unwrap_err();
    assert_eq!((output[0].pointer.as_str(), output[0].keyword.as_str()), ("/count", "type"));
    assert_eq!(catalogue.by_digest(entry.tool.digest).unwrap().tool, entry.tool);
}

#[test]
fn the_digest_of_a_folder_never_changes_its_meaning() {
    let place = Place::new();
    let folder = place.write("counter", "count_words", "1.0.0");
    let digest = place.open().catalogue().entries()[0].tool.digest.to_string();
    expect!["sha256:f216ccfbc5ec20cf7ba820b458c05e3cc775359545b0bd2cf8704109608c580b"]
        .assert_eq(&digest);
    // Files that Python and editors leave behind do not change the digest.
    fs::create_dir(folder.join("__pycache__")).unwrap();
    fs::write(folder.join("__pycache__/handler.pyc"), "x").unwrap();
    fs::write(folder.join(".handler.py.swp"), "x").unwrap();
    assert_eq!(place.open().catalogue().entries()[0].tool.digest.to_string(), digest);
    fs::write(folder.join("notes.txt"), "").unwrap();
    assert_ne!(place.open().catalogue().entries()[0].tool.digest.to_string(), digest);
}

#[test]
fn the_newest_version_answers_for_a_name() {
    let place = Place::new();
    place.write("a", "tool", "1.9.0");
    place.write("b", "tool", "1.10.0");
    place.write("c", "other", "1.0.0");
    let registry = place.open();
    assert_eq!(listed(&registry), ["other 1.0.0", "tool 1.9.0", "tool 1.10.0"]);
    let catalogue = registry.catalogue();
    assert_eq!(catalogue.get("tool", None).unwrap().tool.version, "1.10.0");
    assert_eq!(catalogue.get("tool", Some("1.9.0")).unwrap().tool.version, "1.9.0");
    assert!(catalogue.get("tool", Some("2.0.0")).is_none());
    assert!(catalogue.get("too", None).is_none() && catalogue.get("toolx", None).is_none());
}

#[test]
fn broken_skills_are_listed_and_stop_nothing() {
    let place = Place::new();
    let skills = place.skills();
    place.write("good", "good", "1.0.0");
    place.write("twin", "good", "1.0.0");
    place.write("impostor", "code_run", "9.0.0");
    let linked = place.write("linked", "linked", "1.0.0");
    symlink("/etc/passwd", linked.join("data.txt")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, linked.join("pipe"), rustix::fs::Mode::RWXU).unwrap();
    fs::create_dir(skills.join("only-md")).unwrap();
    fs::write(skills.join("only-md/SKILL.md"), "# x").unwrap();
    fs::create_dir(skills.join("half")).unwrap();
    fs::write(skills.join("half/skill.yaml"), yaml("half", "1")).unwrap();
    symlink(skills.join("good"), skills.join("alias")).unwrap();
    // None of these is a skill.
    fs::create_dir_all(skills.join("tests/nested")).unwrap();
    fs::write(skills.join("tests/nested/skill.yaml"), yaml("nested", "1.0.0")).unwrap();
    fs::create_dir(skills.join(".hidden")).unwrap();
    fs::write(skills.join(".hidden/skill.yaml"), "").unwrap();
    fs::write(skills.join("README.md"), "").unwrap();
    let place = Place { builtins: vec![builtin("code_run")], ..place };
    let registry = place.open();
    assert_eq!(listed(&registry), ["code_run 1.0.0", "good 1.0.0"]);
    expect![[r#"
        [
            "alias: the folder is a symbolic link; links are not followed",
            "half: skill.yaml: version: must be text, found a number; schema.json is missing; handler.py is missing",
            "impostor: the name `code_run` is already taken by a tool of the server itself",
            "linked: data.txt: links are refused; pipe: only files and folders are possible",
            "only-md: SKILL.md: begins with no front matter: `---`, `name:`, `description:`, `---`",
            "twin: `good` 1.0.0 is already taken by the folder `good`",
        ]
    "#]]
    .assert_debug_eq(&broken(&place, &registry));
}

#[test]
fn a_place_for_skills_that_cannot_be_read_is_told_without_where_it_is() {
    let place = Place::new();
    let skills = place.skills();
    fs::remove_dir(&skills).unwrap();
    fs::write(&skills, "not a folder").unwrap();
    let told = broken(&place, &place.open());
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("skills: the folder of skills cannot be read: "), "{told:?}");
    assert!(!told[0].contains("ROOT"), "{told:?}");
}

const EMBEDDED: EmbeddedSkill = EmbeddedSkill {
    name: "embedded",
    files: &[
        ("skill.yaml", b"name: embedded\nversion: 1.0.0\ndescription: x\nhandler: handler.run\n"),
        ("schema.json", SCHEMA.as_bytes()),
        ("handler.py", b"def run(text): return {}"),
    ],
};

#[test]
fn a_folder_replaces_the_skill_of_the_same_name_in_the_binary() {
    let place = Place { embedded: vec![EMBEDDED], ..Place::new() };
    let registry = place.open();
    assert_eq!(listed(&registry), ["embedded 1.0.0"]);
    assert_eq!(registry.catalogue().entries()[0].tool.origin, Origin::Builtin);

    let folder = place.write("embedded", "embedded", "0.5.0");
    registry.rescan();
    assert_eq!(listed(&registry), ["embedded 0.5.0"]);
    // A broken folder still replaces the embedded skill.
    fs::remove_file(folder.join("handler.py")).unwrap();
    registry.rescan();
    assert!(listed(&registry).is_empty());
    assert_eq!(broken(&place, &registry), ["embedded: handler.py is missing"]);
    fs::remove_dir_all(&folder).unwrap();
    registry.rescan();
    assert_eq!(listed(&registry), ["embedded 1.0.0"]);
}

#[test]
fn what_did_not_change_is_taken_over_and_announces_nothing() {
    let place = Place::new();
    place.write("a", "a", "1.0.0");
    let registry = place.open();
    let before = registry.catalogue();
    let changes = registry.changes();
    registry.rescan();
    assert!(!changes.has_changed().unwrap());
    place.write("b", "b", "1.0.0");
    registry.rescan();
    assert!(changes.has_changed().unwrap());
    let after = registry.catalogue();
    assert!(std::sync::Arc::ptr_eq(before.get("a", None).unwrap(), after.get("a", None).unwrap()));
    // A snapshot never changes.
    assert_eq!((before.entries().len(), after.entries().len()), (1, 2));
}

#[test]
fn a_wrong_tool_of_the_binary_is_fatal() {
    let mut wrong = builtin("wrong");
    wrong.input_schema = Json::parse(br#"{"type": "thing"}"#).unwrap();
    let place = Place::new();
    let config = |builtins| Config {
        builtins,
        folders: Vec::new(),
        embedded: Vec::new(),
        uploads: place.uploads(),
        clock: std::sync::Arc::new(ringfence_testkit::TestClock::fixed(0)),
    };
    let error = Registry::open(config(vec![wrong])).unwrap_err();
    assert!(matches!(error, Error::Builtin { ref name, .. } if name == "wrong"), "{error}");
    assert!(Registry::open(config(vec![builtin("x"), builtin("x")])).is_err());
    assert!(Registry::open(config(vec![builtin("x"), builtin("y")])).is_ok());
}

#[test]
fn the_skills_of_this_project_are_not_broken() {
    let skills = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../skills");
    let place = Place::new();
    let registry = Registry::open(Config {
        builtins: Vec::new(),
        folders: vec![skills],
        embedded: Vec::new(),
        uploads: place.uploads(),
        clock: std::sync::Arc::new(ringfence_testkit::TestClock::fixed(0)),
    })
    .unwrap();
    let catalogue = registry.catalogue();
    assert_eq!(catalogue.broken(), []);
    for name in ["compact_memory", "extract_entities", "text_summarize"] {
        assert!(catalogue.get(name, None).is_some(), "{name}");
    }
}
