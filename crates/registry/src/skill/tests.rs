use std::time::{Duration, Instant};

use expect_test::expect;
use proptest::prelude::*;
use ringfence_types::{Bytes, Cpus, Limits, SandboxNetwork};

use super::*;

const YAML: &str = "
name: word_count
version: 1.2.3
description: Counts words.
handler: handler.count
";
const SCHEMA: &str = r#"{"input": {"type": "object"}, "output": {"type": "object"}}"#;
const CODE: &str = "def count(**args):\n    return {}\n";

fn files(list: &[(&str, &str)]) -> Files {
    let mut files = Files::default();
    for (path, content) in list {
        files.add(path, content.as_bytes().to_vec()).unwrap();
    }
    files
}

fn with_yaml(yaml: &str) -> Result<Skill, Vec<String>> {
    load(&files(&[("skill.yaml", yaml), ("schema.json", SCHEMA), ("handler.py", CODE)]))
}

fn with(more: &str) -> Result<Skill, Vec<String>> {
    with_yaml(&format!("{YAML}{more}"))
}

#[test]
fn a_skill_is_what_its_files_say() {
    let files = files(&[
        (
            "skill.yaml",
            "name: word_count\nversion: 1.2.3\ndescription: Counts words.\nhandler: handler.count\nsafety_flags: [pii_risk, file_system]\nrequires_approval: yes\ntags:\n  - text\nlimits: {timeout_seconds: 2.5, max_memory_mb: 64, max_cpu_percent: 50, network: loopback, terminals: 1}\nwhen_to_use: [never]\ntier1: {priority: 1}\n",
        ),
        ("schema.json", SCHEMA),
        ("handler.py", CODE),
        ("data/words.txt", "a b"),
    ]);
    let skill = load(&files).unwrap();
    let manifest = &skill.manifest;
    assert_eq!(manifest.name.as_str(), "word_count");
    assert_eq!(manifest.version.as_str(), "1.2.3");
    assert_eq!((manifest.module.as_str(), manifest.function.as_str()), ("handler", "count"));
    assert_eq!(manifest.safety_flags, ["pii_risk", "file_system"]);
    assert!(manifest.requires_approval);
    assert_eq!(manifest.tags, ["text"]);
    let limits = Limits {
        wall: Duration::from_millis(2500),
        memory: Bytes::mib(64),
        disk: Bytes::mib(32),
        cpus: Cpus(500),
        network: SandboxNetwork::Loopback,
        terminals: 1,
        ..Limits::default()
    };
    assert_eq!(manifest.limits, limits);
    assert_eq!(&*skill.code, CODE);
    let paths: Vec<&str> = skill.files.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["data/words.txt", "schema.json", "skill.yaml"]);
    assert_eq!(skill.digest, files.digest());
}

#[test]
fn what_is_not_said_has_a_default() {
    let manifest = with("").unwrap().manifest;
    assert_eq!(manifest.limits, Limits::default());
    assert!(!manifest.requires_approval);
    assert!(manifest.safety_flags.is_empty() && manifest.tags.is_empty());
    assert_eq!(with("limits:\ntags:\n").unwrap().manifest, manifest);
}

#[test]
fn a_misspelt_key_is_a_problem_and_names_the_one_that_was_meant() {
    let problems = |lines: &str| with(lines).unwrap_err();
    assert_eq!(
        problems("safety_flag: [side_effect]\nrequires_aproval: true\nwhatever: 1\n"),
        [
            "skill.yaml: `requires_aproval` is not a known key; did you mean `requires_approval`?",
            "skill.yaml: `safety_flag` is not a known key; did you mean `safety_flags`?",
            "skill.yaml: `whatever` is not a known key; keys of your own begin with `x-`",
        ]
    );
    let own = "x-team: search\ntier1: {priority: 1}\nexamples: []\ndependencies: [a]\n\
               anthropic_compatible: true\nwhen_to_use: x\nwhen_not_to_use: y\ninputs_schema: {}\n";
    assert!(with(own).is_ok(), "the control: keys of one's own, and those that others ignore");
}

#[test]
fn everything_wrong_with_a_skill_is_named_at_once() {
    let yaml = "name: word count\nversion: 1.0\nhandler: handler\nsafety_flags: [none, fast]\n\
                requires_approval: maybe\ntags: text\nlimits:\n  timeout_seconds: soon\n  \
                max_memory_mb: 4\n  max_cpu_percent: 1e9\n  max_gpus: 1\n  network: host\n  terminals: 99\n";
    let schema = r#"{"input": {"type": "thing"}, "output": []}"#;
    let problems = load(&files(&[("skill.yaml", yaml), ("schema.json", schema)])).unwrap_err();
    expect![[r#"
        [
            "skill.yaml: name: `word count` is not a valid tool name: 1 to 128 of A-Z a-z 0-9 _ . -",
            "skill.yaml: version: must be text, found a number",
            "skill.yaml: description: is missing",
            "skill.yaml: handler: `handler` is not `file.function`, such as handler.run",
            "skill.yaml: safety_flags: `fast` is not one of none, pii_risk, external_call, side_effect, file_system, network_access",
            "skill.yaml: tags: must be a list, found text",
            "skill.yaml: requires_approval: must be true or false, found text",
            "skill.yaml: limits.timeout_seconds: must be a number, found text",
            "skill.yaml: limits.max_memory_mb: must be from 8 to 16384",
            "skill.yaml: limits.max_cpu_percent: must be from 1 to 6400",
            "skill.yaml: limits.max_gpus: is not a limit",
            "skill.yaml: limits.network: `host` is not one of none, loopback",
            "skill.yaml: limits.terminals: must be from 0 to 16",
            "schema.json: input: at /type: \"thing\" is not valid under any of the schemas listed in the 'anyOf' keyword",
            "schema.json: output: must be an object",
            "handler.py is missing",
        ]
    "#]]
    .assert_debug_eq(&problems);
}

#[test]
fn variables_and_secrets_are_read_and_reserved_ones_refused() {
    let skill = with("env: {MODE: fast}\nsecrets: {API_KEY: openai}\n").unwrap();
    assert_eq!(skill.manifest.env.get("MODE").map(String::as_str), Some("fast"));
    assert_eq!(skill.manifest.secrets["API_KEY"].as_str(), "openai");
    let listed = with("secrets: [my-key.v2]\n").unwrap();
    assert_eq!(listed.manifest.secrets["MY_KEY_V2"].as_str(), "my-key.v2");
    for (more, part) in [
        ("env: {HTTP_PROXY: x}\n", "env: `HTTP_PROXY` is not a variable that can be set"),
        ("env: {A-B: x}\n", "env: `A-B` is not a variable that can be set"),
        ("env: {A: 1}\n", "env: `A` must be text, found a number; quote it"),
        ("env: [A]\n", "env: must be a mapping, found a list"),
        ("secrets: {A: a b}\n", "secrets: `a b` is not a valid secret name"),
        ("secrets: [a b]\n", "secrets: `a b` is not a valid secret name"),
    ] {
        let problems = with(more).unwrap_err().join("; ");
        assert!(problems.contains(part), "{more}: {problems}");
    }
}

#[test]
fn missing_and_malformed_files_are_named() {
    let problems = |list: &[(&str, &str)]| load(&files(list)).unwrap_err();
    assert_eq!(
        problems(&[]),
        ["skill.yaml is missing", "schema.json is missing", "handler.py is missing"]
    );
    assert!(problems(&[("SKILL.md", "# x"), ("script.py", "")])[0].starts_with("only SKILL.md"));
    assert_eq!(
        problems(&[("skill.yaml", YAML), ("schema.json", "[1]"), ("handler.py", "def other(): 1")]),
        [
            "schema.json: must be an object",
            "handler.py does not define `count`, which skill.yaml calls"
        ]
    );
    assert_eq!(
        problems(&[
            ("skill.yaml", YAML),
            ("schema.json", r#"{"input": {}}"#),
            ("handler.py", CODE)
        ]),
        ["schema.json: `output` is missing"]
    );
    let mut binary = files(&[("skill.yaml", YAML), ("schema.json", SCHEMA)]);
    binary.add("handler.py", b"def count(): return '\xff'".to_vec()).unwrap();
    assert_eq!(load(&binary).unwrap_err(), ["handler.py is not UTF-8"]);
}

#[test]
fn the_handler_names_its_file() {
    let yaml = YAML.replace("handler.count", "words.count");
    let skill = load(&files(&[
        ("skill.yaml", &yaml),
        ("schema.json", SCHEMA),
        ("words.py", CODE),
        ("handler.py", ""),
    ]))
    .unwrap();
    assert_eq!(skill.manifest.module, "words");
    assert_eq!(&*skill.code, CODE);
    for bad in ["count", ".count", "handler.", "../x.count", "a.b.count", "handler.1x", "h.f()"] {
        let yaml = YAML.replace("handler.count", &format!("\"{bad}\""));
        assert!(with_yaml(&yaml).unwrap_err()[0].contains("file.function"), "{bad}");
    }
}

#[test]
fn repeated_keys_tags_and_second_documents_are_refused() {
    for (yaml, problem) in [
        ("name: other\n", "appears twice"),
        ("limits: {max_memory_mb: 64, max_memory_mb: 128}\n", "appears twice"),
        ("x: !python/object/apply:os.system [id]\n", "without tags"),
        ("---\nname: other\n", "more than one document"),
        ("? [a]\n: b\n", "not text"),
        ("x: *missing\n", "unknown anchor"),
    ] {
        let problems = with(yaml).unwrap_err();
        assert!(problems[0].contains(problem), "{yaml}: {problems:?}");
    }
    for not_a_map in ["", "- a", "text", "~"] {
        assert!(with_yaml(not_a_map).is_err(), "{not_a_map}");
    }
}

#[test]
fn yaml_bombs_are_given_up_quickly() {
    let laughs: String = (1..30)
        .map(|n| format!("a{n}: &a{n} [{}]\n", format!("*a{},", n - 1).repeat(10)))
        .collect();
    let flat = format!("a: &a [{}]\nb: [{}]\n", "x,".repeat(10_000), "*a,".repeat(10_000));
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(30_000), "*a,".repeat(9_000));
    let bombs = [
        format!("a0: &a0 lol\n{laughs}"),
        flat,
        text,
        "x: &a [*a]\n".to_owned(),
        format!("x: {}", "[".repeat(60_000)),
        format!("x: {}", "{a: ".repeat(15_000)),
        format!("x: {}1{}", "[".repeat(100), "]".repeat(100)),
        "- ".repeat(30_000),
        "? ".repeat(30_000),
        format!("x: {}\n", "y".repeat(70_000)),
    ];
    for bomb in bombs {
        let started = Instant::now();
        let problems = with(&bomb).expect_err("a bomb is not a skill");
        assert!(started.elapsed() < Duration::from_secs(5), "{problems:?}");
        assert!(problems.iter().all(|problem| problem.chars().count() < 500));
    }
}

#[test]
fn problems_show_no_control_characters() {
    let problems = with_yaml("name: \"\\e[2J\\u202e\"\nversion: \"\\e[31m\"\n").unwrap_err();
    assert!(problems.iter().all(|problem| !problem.contains(['\u{1b}', '\u{202e}'])));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_text_is_a_manifest_that_panics(text in "([a-z&*:\\-\\[\\]{}?!|>'\"#,\n ]|name|<<|~){0,80}") {
        let _ = with_yaml(&text);
        let _ = with(&text);
    }

    #[test]
    fn no_bytes_are_a_skill_that_panics(yaml: Vec<u8>, schema: Vec<u8>, code: Vec<u8>) {
        let mut files = Files::default();
        for (path, content) in [("skill.yaml", yaml), ("schema.json", schema), ("handler.py", code)] {
            files.add(path, content).unwrap();
        }
        let _ = load(&files);
    }

    #[test]
    fn limits_are_within_their_bounds_or_refused(seconds: f64, memory: f64, cpu: f64) {
        let yaml = format!("limits: {{timeout_seconds: {seconds:e}, max_memory_mb: {memory:e}, max_cpu_percent: {cpu:e}}}");
        if let Ok(skill) = with(&yaml) {
            prop_assert!(skill.manifest.limits.clone().checked().is_ok());
            prop_assert!(skill.manifest.limits.wall <= Duration::from_secs(3600));
        }
    }
}
