//! Python form of JSON, compared with the output of a real Python.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use ringfence_types::{Json, json::canonical};

/// Program that reads one JSON text per line and prints its canonical form, as the Code Executor
/// Service does.
const DUMPS: &str = "
import json, sys
for line in sys.stdin.buffer:
    print(json.dumps(json.loads(line), sort_keys=True, default=str))
";

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        "-?[1-9][0-9]{18,60}",
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(|f| format!("{f:?}")),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(|f| format!("{f:e}")),
        "-?(0|[1-9][0-9]{0,5})\\.[0-9]{1,8}([eE][+-]?[0-9]{1,2})?",
        Just("-0".to_owned()),
        Just("-0.0".to_owned()),
        Just("1e16".to_owned()),
        Just("9999999999999998.0".to_owned()),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[a-z]{0,3}", "[\\u{0}-\\u{9f}\"\\\\/]{0,4}"]
        .prop_map(|text| serde_json::to_string(&text).expect("a string"))
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|b| b.to_string()),
        number(),
        text(),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5)
                .prop_map(|items| format!("[{}]", items.join(" ,"))),
            proptest::collection::btree_map(text(), inner, 0..5).prop_map(|fields| {
                let fields: Vec<_> = fields.iter().map(|(k, v)| format!("{k}: {v}")).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}

fn values(count: usize) -> Vec<String> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    (0..count)
        .map(|_| value().new_tree(&mut runner).expect("a strategy without filters fails never"))
        .map(|tree| tree.current())
        .collect()
}

#[expect(clippy::disallowed_methods, reason = "the comparison needs a real Python")]
fn dumps(lines: &[String]) -> Vec<String> {
    let mut python = Command::new("python3")
        .args(["-c", DUMPS])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is needed for this test");
    let mut stdin = python.stdin.take().expect("piped");
    let all = lines.join("\n") + "\n";
    let writer = std::thread::spawn(move || stdin.write_all(all.as_bytes()));
    let output = python.wait_with_output().expect("it ends with its input");
    writer.join().expect("no panic").expect("it reads everything");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("ASCII").lines().map(str::to_owned).collect()
}

#[test]
fn random_values_are_written_as_python_writes_them() {
    let values = values(5_000);
    let theirs = dumps(&values);
    assert_eq!(theirs.len(), values.len());
    for (value, theirs) in values.iter().zip(theirs) {
        let ours = Json::parse(value.as_bytes()).unwrap_or_else(|error| panic!("{value}: {error}"));
        assert_eq!(canonical::python(&ours), theirs, "{value}");
        // Compacting first changes nothing.
        assert_eq!(Json::parse(ours.as_str().as_bytes()), Ok(ours));
    }
}
