use serde_json::json;

use super::*;

fn args(value: &Value) -> Json {
    Json::of(value).unwrap()
}

fn problems(takes: Takes, value: &Value) -> Vec<String> {
    let violations = read(takes, &args(value)).expect_err("it is wrong");
    violations.iter().map(|v| format!("{} {}", v.pointer, v.message)).collect()
}

#[test]
fn the_tool_gets_its_own_arguments_digit_by_digit() {
    let all = Json::parse(br#"{"n":123456789012345678901234567890,"$given":{"stdin":"x"}}"#);
    assert_eq!(own_args(&all.unwrap()).as_str(), r#"{"n":123456789012345678901234567890}"#);
    let plain = args(&json!({"text": "\"$given\""}));
    assert_eq!(*own_args(&plain), plain);
}

#[test]
fn all_that_is_given_is_read() {
    let id = "01900000-0000-7000-8000-000000000001";
    let digest = Digest::of(b"x");
    let given = json!({
        "env": {"MODE": "fast"},
        "files": {
            "a.txt": "text", "b/c.bin": {"base64": "AAE="}, "d": {"artifact": digest},
            "e": {"artifact": id, "version": 2}, "/workspace/f": {"text": "f"},
        },
        "limits": {"wall_secs": 2, "memory_bytes": 67_108_864, "cpu_millis": 500},
        "outputs": ["*.csv", "out/**"],
        "stdin": "input",
    });
    let read_in = read(Takes::All, &args(&json!({"code": "1", "$given": given}))).unwrap();
    let mut own = given.clone();
    own["code"] = json!("1");
    assert_eq!(read(Takes::All, &args(&own)).unwrap(), read_in, "the same among the arguments");
    assert_eq!(read_in.files.len(), 5);
    assert_eq!(read_in.files["b/c.bin"], Content::Inline([0, 1].as_slice().into()));
    let by_id = ArtifactRef::Version(id.parse().unwrap(), Some(2));
    assert_eq!(read_in.files["e"], Content::Artifact(by_id, None));
    assert_eq!(read_in.limits.cpu_millis, Some(500));
    assert_eq!(read(Takes::Nothing, &args(&json!({"files": 1}))).unwrap(), Given::default());
}

#[test]
fn every_problem_is_named() {
    let given = json!({
        "env": {"RINGFENCE_X": "1", "a=b": "1", "N": 1},
        "files": {"../x": "1", "y": 1, "z": {"artifact": "no"}, "w": {"base64": "!"}},
        "limits": {"wall_secs": 0, "memory_bytes": 1, "colour": 1},
        "outputs": [1],
        "more": 1,
    });
    let found = problems(Takes::All, &json!({"$given": given}));
    let places: Vec<_> =
        found.iter().map(|text| text.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(
        places,
        [
            "/$given/env/N",
            "/$given/env/RINGFENCE_X",
            "/$given/env/a=b",
            "/$given/files/..~1x",
            "/$given/files/w",
            "/$given/files/y",
            "/$given/files/z",
            "/$given/limits/colour",
            "/$given/limits/memory_bytes",
            "/$given/limits/wall_secs",
            "/$given/more",
            "/$given/outputs",
        ],
        "{found:#?}"
    );
    assert_eq!(problems(Takes::Nothing, &json!({"$given": {}})).len(), 1);
    assert_eq!(problems(Takes::All, &json!({"$given": {}, "stdin": ""})).len(), 1);
    assert_eq!(problems(Takes::Data, &json!({"$given": {"env": {"A": "b"}}})).len(), 1);
    assert_eq!(problems(Takes::Data, &json!({"$given": 1})).len(), 1);
}

#[test]
fn what_is_resolved_replaces_only_what_was_named() {
    let before = args(&json!({
        "n": 1, "$given": {"files": {"a": {"artifact": "x"}, "b": "text"}, "stdin": "y"},
    }));
    let after = pinned(&before, vec![(Some("a"), json!({"digest": 1})), (None, json!("z"))]);
    let expected = json!({
        "n": 1, "$given": {"files": {"a": {"digest": 1}, "b": "text"}, "stdin": "z"},
    });
    assert_eq!(after.to_value(), expected);
    let own = args(&json!({"code": "1", "files": {"a": {"artifact": "x"}}}));
    let after = pinned(&own, vec![(Some("a"), json!({"digest": 1}))]);
    assert_eq!(after.to_value(), json!({"code": "1", "files": {"a": {"digest": 1}}}));
}
