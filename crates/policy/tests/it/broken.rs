//! Invalid rules: refused when loaded, or their calls are held. Never an allow.

use expect_test::expect;
use ringfence_policy::{Bundle, POLICY_UNAVAILABLE, Rego};
use ringfence_types::Verdict;

use super::{decided, load};

#[test]
fn all_problems_are_named_with_file_and_line() {
    let bundle = Bundle::from_files([
        ("a.rego", "package ringfence\n\ndecision := tru e\n"),
        ("b.rego", "package b\n\nx := startwith(\"a\", \"b\")\ny := time.now_ns()\n"),
        ("c.rego", "no package\n"),
        ("d.rego", "package d\nf(x) := g(x)\ng(x) := f(x)\nz := data.e.h(1)\n"),
        ("e.rego", "package e\nimport data.d\nh(x) := data.e.h(x)\nk := d.f(1)\n"),
        ("f.rego", "package f\na if { data.y with data.x as 2 }\nb := numbers[\"range\"](1, 2)\n"),
        (
            "h.rego",
            "package h\na := replace(input.args.x, \"a\", input.args.y)\nb := concat(input.args.x, [])\nc := replace(input.args.x, \"a\", \"b\")\nd := strings.replace_n({}, \"\")\n",
        ),
        ("g.rego", "package g\na := sprintf(input.args.x, [1])\nb := sprintf(\"%99999d\", [1])\n"),
    ]);
    let refused = Rego::load(&bundle.expect("files within bounds")).expect_err("a broken bundle");
    expect![[r#"
        the policy cannot be used
          a.rego:3: rule must have a body or assignment
          b.rego:3: no function `startwith`
          b.rego:4: `time.now_ns` is not available: the same document must have the same decision: use input.time
          c.rego:1: expecting `package` Missing package declaration.
          d.rego:2: function `data.d.f` calls itself: Rego has no recursion
          d.rego:3: function `data.d.g` calls itself: Rego has no recursion
          e.rego:3: function `data.e.h` calls itself: Rego has no recursion
          f.rego:2: outside of tests, `with` can only replace `input`
          f.rego:3: `numbers.range` is not available: two small numbers can make a huge list
          g.rego:2: the format of `sprintf` must be written in the rule
          g.rego:3: the format of `sprintf` has a width of more than three digits
          h.rego:2: the text or the replacement of `replace` must be written in the rule
          h.rego:3: the delimiter of `concat` must be written in the rule
          h.rego:5: `strings.replace_n` is not available: use `replace`"#]].assert_eq(&refused.to_string());
}

#[test]
fn a_bundle_without_a_decision_is_refused() {
    let mut problems = String::new();
    for rules in [
        "package other\ndecision := true",
        "package ringfence\nallow := true",
        "package ringfence\ndecision.allow := true",
        "",
    ] {
        problems += &format!("{}\n", load(rules).expect_err("no decision"));
    }
    problems += &format!(
        "{}\n",
        Rego::load(&Bundle::from_files([("", ""); 0]).unwrap()).expect_err("nothing")
    );
    expect![[r#"
        the policy cannot be used
          .: no file has `package ringfence`
        the policy cannot be used
          .: package `ringfence` has no rule `decision`
        the policy cannot be used
          .: package `ringfence` has no rule `decision`
        the policy cannot be used
          rules.rego:1: expecting `package` Missing package declaration.
        the policy cannot be used
          .: no file has `package ringfence`
    "#]]
    .assert_eq(&problems);
}

#[test]
fn files_that_are_not_rules_are_named() {
    let files = [
        ("policy.reg", "package ringfence"),
        ("sub/data.json", "{}"),
        ("data.json", r#"{"ringfence":{"decision":true}}"#),
        ("twice.rego", "package a"),
        ("twice.rego", "package b"),
    ];
    let mut problems = format!("{}\n", Bundle::from_files(files).expect_err("not rules"));
    for data in ["[]", "{", r#"{"a":1,"a":2}"#] {
        problems += &format!("{}\n", Bundle::from_files([("data.json", data)]).expect_err("data"));
    }
    expect![[r#"
        the policy cannot be used
          data.json: `ringfence` belongs to the rules: choose another key
          policy.reg: not a policy file: only *.rego and data.json at the top are read
          sub/data.json: not a policy file: only *.rego and data.json at the top are read
          twice.rego: named twice
        the policy cannot be used
          data.json: not an object
        the policy cannot be used
          data.json: the text ends too early at byte 1
        the policy cannot be used
          data.json: the key `a` appears twice at byte 13
    "#]]
    .assert_eq(&problems);
}

#[test]
fn a_bundle_is_bounded() {
    let long = "#".repeat((256 << 10) + 1);
    assert!(Bundle::from_files([("a.rego", long.as_str())]).is_err());
    let many = (0..257).map(|index| (format!("{index}.rego"), "package a"));
    assert!(Bundle::from_files(many).is_err());
    let fits = &long[1..];
    let heavy = (0..33).map(|index| (format!("{index}.rego"), fits));
    assert!(Bundle::from_files(heavy).is_err());
    let rules: String = (0..1001).map(|index| format!("r{index} := 1\n")).collect();
    assert!(load(&format!("package ringfence\ndecision := true\n{rules}")).is_err());
}

#[test]
fn the_revision_is_of_rules_and_facts_and_not_of_tests() {
    let of = |files: &[(&'static str, &'static str)]| {
        Bundle::from_files(files.iter().copied()).expect("a bundle").digest()
    };
    let one = of(&[("a.rego", "package a"), ("b.rego", "package b")]);
    assert_eq!(one, of(&[("b.rego", "package b"), ("a.rego", "package a")]), "order");
    assert_eq!(one, of(&[("a.rego", "package a"), ("b.rego", "package b"), ("b_test.rego", "")]));
    for other in [
        of(&[("a.rego", "package a"), ("b.rego", "package c")]),
        of(&[("a.rego", "package a"), ("c.rego", "package b")]),
        of(&[("a.rego", "package a"), ("b.rego", "package b"), ("data.json", "{}")]),
    ] {
        assert_ne!(one, other);
    }
}

#[tokio::test]
async fn an_answer_that_is_not_a_decision_holds_the_call() {
    let answers = [
        "decision := true if input.args.none",
        "decision := null",
        "decision := 1",
        "decision := \"allow\"",
        "decision := [true]",
        "decision := {true}",
        "decision := {}",
        "decision := {\"decision\": \"allow\", \"extra\": 1}",
        "decision := {\"decision\": \"yes\"}",
        "decision := {\"decision\": \"allow\", \"obligations\": {\"limits\": {\"wall_secs\": -1}}}",
        "decision := {\"decision\": \"allow\", \"obligations\": {\"redact\": [\"x\"]}}",
        "decision := {\"decision\": \"allow\", 1: 2}",
        "decision := {\"decision\": \"allow\", \"reasons\": [1]}",
        "decision contains \"allow\"",
        "decision := true if input.args\ndecision := false if input.args",
        "a := decision\ndecision := a",
        "decision := to_number(\"x\") == 1",
    ];
    for answer in answers {
        let (permitted, decision) = decided(&format!("package ringfence\n{answer}"), "{}").await;
        assert!(!permitted, "{answer}");
        assert_eq!(decision.verdict, Verdict::Hold, "{answer}");
        assert_eq!(decision.reasons[0].rule, POLICY_UNAVAILABLE, "{answer}");
    }
}

#[tokio::test]
async fn an_answer_that_is_a_decision_is_kept_whole() {
    let rules = r#"package ringfence
        decision := {"decision": "allow", "reasons": {{"rule": "r", "message": "m"}},
            "obligations": {"limits": {"wall_secs": 5}, "min_isolation": "cold"}}"#;
    let (permitted, decision) = decided(rules, "{}").await;
    assert!(permitted);
    let text = serde_json::to_string(&decision.obligations).expect("obligations");
    assert_eq!(text, r#"{"limits":{"wall_secs":5},"min_isolation":"cold"}"#);
    assert_eq!(decision.reasons[0].rule, "r");
    for (answer, verdict) in [("true", Verdict::Allow), ("false", Verdict::Deny)] {
        let (_, decision) =
            decided(&format!("package ringfence\ndecision := {answer}"), "{}").await;
        assert_eq!(decision.verdict, verdict);
    }
}

#[tokio::test]
async fn facts_are_there_for_the_rules() {
    let files = [
        ("rules.rego", "package ringfence\ndecision := input.tenant in data.trusted"),
        ("data.json", r#"{"trusted": ["acme"]}"#),
    ];
    let rego = Rego::load(&Bundle::from_files(files).expect("a bundle")).expect("rules");
    let input = ringfence_policy::contract::document(&[], "{}");
    let decided = ringfence_policy::decide(&rego, &input).await;
    assert_eq!(decided.decision().verdict, Verdict::Allow);
}
