//! Running the tests of a bundle.

use expect_test::expect;
use ringfence_policy::{Bundle, Suite, TestOutcome};

const RULES: &str = r#"package ringfence

default decision := {"decision": "deny"}

decision := {"decision": "allow"} if {
	input.tenant in data.trusted
}

decision := {"decision": "hold"} if {
	input.args.x == 1
}
"#;

/// Result of each test, then the coverage.
fn ran(tests: &str) -> String {
    let tests = format!("package ringfence_test\n\nimport data.ringfence\n\n{tests}");
    let files =
        [("a.rego", RULES), ("a_test.rego", &tests), ("data.json", r#"{"trusted": ["a"]}"#)];
    let suite = match Bundle::from_files(files).and_then(|bundle| Suite::run(&bundle)) {
        Ok(suite) => suite,
        Err(invalid) => return invalid.to_string(),
    };
    let mut text = String::new();
    for test in &suite.tests {
        let outcome = match &test.outcome {
            TestOutcome::Failed(Some(at)) => {
                format!("failed at {}:{} {}", at.file, at.line, at.text)
            }
            other => format!("{other:?}"),
        };
        text += &format!("{}:{} {} {outcome}\n", test.file, test.line, test.name);
    }
    for file in &suite.coverage {
        text += &format!("{} {} covered, missed {:?}\n", file.file, file.covered, file.missed);
    }
    assert_eq!(suite.is_passed(), !text.contains("failed") && !text.contains("Errored"));
    text
}

#[test]
fn a_test_passes_fails_at_an_expression_or_waits() {
    let text = ran(r#"test_trusted if {
	ringfence.decision.decision == "allow" with input as {"tenant": "a"}
}

test_data_can_be_replaced if {
	ringfence.decision.decision == "allow" with input as {"tenant": "z"} with data.trusted as ["z"]
}

test_wrong if {
	decision := ringfence.decision with input as {"tenant": "b"}
	decision.decision == "deny"
	decision.decision == "allow"
	decision.decision == "hold"
}

test_wrong_within if {
	every tenant in ["a", "b"] {
		decision := ringfence.decision with input as {"tenant": tenant}
		decision.decision == "allow"
	}
}

test_false := false

todo_test_later if false

helper := 1
"#);
    expect![[r#"
        a_test.rego:5 data.ringfence_test.test_trusted Passed
        a_test.rego:9 data.ringfence_test.test_data_can_be_replaced Passed
        a_test.rego:13 data.ringfence_test.test_wrong failed at a_test.rego:16 decision.decision == "allow"
        a_test.rego:20 data.ringfence_test.test_wrong_within failed at a_test.rego:23 decision.decision == "allow"
        a_test.rego:27 data.ringfence_test.test_false Failed(None)
        a_test.rego:29 data.ringfence_test.todo_test_later Skipped
        a.rego 4 covered, missed [9]
    "#]]
    .assert_eq(&text);
}

#[test]
fn a_test_that_cannot_be_evaluated_stops_no_other() {
    let text = ran(r#"test_conflict if {
	ringfence.decision with input as {"tenant": "a", "args": {"x": 1}}
}

test_good if true
"#);
    expect![[r#"
        a_test.rego:5 data.ringfence_test.test_conflict Errored("a.rego:9: rule conflicts with rule at a.rego:5:1")
        a_test.rego:9 data.ringfence_test.test_good Passed
        a.rego 4 covered, missed [3]
    "#]]
    .assert_eq(&text);
}

#[test]
fn tests_keep_to_the_bounds_of_decisions() {
    let text =
        ran("test_a if http.send({}).x\n\ntest_b if numbers.range(1, 2)\n\ntest_c if no.such()\n");
    expect![[r#"
        the policy cannot be used
          a_test.rego:5: `http.send` is not available: rules cannot reach the network
          a_test.rego:5: no function `http.send`
          a_test.rego:7: `numbers.range` is not available: two small numbers can make a huge list
          a_test.rego:9: no function `no.such`"#]]
    .assert_eq(&text);
}

#[test]
fn rules_must_stand_without_their_tests() {
    let files = [
        ("a.rego", "package ringfence\n\ndecision := helper(1)\n"),
        ("a_test.rego", "package ringfence\n\nhelper(x) := true\n\ntest_a if decision\n"),
    ];
    let refused = Bundle::from_files(files).and_then(|bundle| Suite::run(&bundle)).unwrap_err();
    expect![[r#"
        the policy cannot be used
          a.rego:3: no function `helper`"#]]
    .assert_eq(&refused.to_string());
}
