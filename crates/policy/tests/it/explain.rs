//! Explanation of an answer, and the change that would be allowed.

use expect_test::expect;
use ringfence_policy::{Bundle, Explanation, Search, contract::document};
use serde_json::Value;

fn shown(value: Option<&Value>) -> String {
    value.map_or("nothing".to_owned(), ToString::to_string)
}

/// Explanation as text.
fn told(bundle: &Bundle, flags: &[&str], args: &str) -> String {
    let input = document(flags, args);
    let explanation = Explanation::of(bundle, &input.text()).expect("an explanation");
    let mut text = match &explanation.answer {
        Ok(answer) => format!("{}\n", answer.verdict.name()),
        Err(trouble) => format!("{trouble}\n"),
    };
    for cause in &explanation.causes {
        let places: Vec<_> =
            cause.places.iter().map(|(file, line)| format!("{file}:{line}")).collect();
        text += &format!("{} at {}\n", cause.reason.rule, places.join(", "));
        for (path, value) in &cause.reads {
            text += &format!("  {path} is {}\n", shown(value.as_ref()));
        }
    }
    match &explanation.search {
        Search::Allowed => text += "allowed as it is\n",
        Search::Nothing { .. } => text += "nothing found\n",
        Search::Found { changes, .. } => {
            for change in changes {
                let (from, to) = (shown(change.from.as_ref()), shown(change.to.as_ref()));
                text += &format!("change {} from {from} to {to}\n", change.path);
            }
        }
    }
    text
}

fn bundle(rules: &str) -> Bundle {
    let rules = format!("package ringfence\n\n{rules}");
    let data = r#"{"trusted": ["ann@ours.example"]}"#;
    Bundle::from_files([("rules.rego", rules.as_str()), ("data.json", data)]).expect("a bundle")
}

#[test]
fn flags_that_stand_in_the_way_are_named_and_taken_away() {
    let built_in = Bundle::built_in();
    expect![[r#"
        hold
        side_effect at ringfence.rego:60
          /action is "tool.execute"
          /approval is null
          /tool/safety_flags is ["none","side_effect"]
        none at ringfence.rego:29
          /action is "tool.execute"
          /tool/safety_flags is ["none","side_effect"]
        change /approval from null to {"by":["00000000-0000-7000-8000-000000000000"],"decided_at":"2023-11-14T22:13:20.000000Z","id":"00000000-0000-7000-8000-000000000001","reach":"once","shown":"sha256:0000000000000000000000000000000000000000000000000000000000000000"}
    "#]]
    .assert_eq(&told(&built_in, &["none", "side_effect"], "{}"));
    expect![[r#"
        deny
        unknown_flag at ringfence.rego:123
          /action is "tool.execute"
          /tool/safety_flags is ["external_call","telepathy"]
        external_call at ringfence.rego:68
          /action is "tool.execute"
          /approval is null
          /tool/safety_flags is ["external_call","telepathy"]
        change /approval from null to {"by":["00000000-0000-7000-8000-000000000000"],"decided_at":"2023-11-14T22:13:20.000000Z","id":"00000000-0000-7000-8000-000000000001","reach":"once","shown":"sha256:0000000000000000000000000000000000000000000000000000000000000000"}
        change /tool/safety_flags from ["external_call","telepathy"] to ["external_call"]
    "#]]
    .assert_eq(&told(&built_in, &["external_call", "telepathy"], "{}"));
    expect![[r#"
        allow
        none at ringfence.rego:29
          /action is "tool.execute"
          /tool/safety_flags is ["none"]
        allowed as it is
    "#]]
    .assert_eq(&told(&built_in, &["none"], "{}"));
}

#[test]
fn an_approval_or_another_argument_is_found() {
    let rules = r#"default decision := {"decision": "hold", "reasons": [{"rule": "outside", "message": "m"}]}

decision := {"decision": "allow"} if endswith(input.args.to, "@ours.example")

decision := {"decision": "allow"} if {
	input.approval.by != input.principal.key
	not endswith(input.args.to, "@ours.example")
}
"#;
    expect![[r#"
        hold
        outside at rules.rego:3
          /approval/by is nothing
          /args/to is "eve@other.example"
          /principal/key is "019a8b7c-1234-7abc-8def-000000000001"
        change /approval from null to {"by":["00000000-0000-7000-8000-000000000000"],"decided_at":"2023-11-14T22:13:20.000000Z","id":"00000000-0000-7000-8000-000000000001","reach":"once","shown":"sha256:0000000000000000000000000000000000000000000000000000000000000000"}
    "#]]
    .assert_eq(&told(&bundle(rules), &["none"], r#"{"to": "eve@other.example"}"#));
    let rules = r#"default decision := {"decision": "deny", "reasons": [{"rule": "large", "message": "m"}]}

decision := {"decision": "allow"} if {
	input.args.amount <= 1000
	input.args.to in data.trusted
}
"#;
    expect![[r#"
        deny
        large at rules.rego:3
          /args/amount is 5000
          /args/to is "eve@other.example"
        change /args/amount from 5000 to 1000
        change /args/to from "eve@other.example" to "ann@ours.example"
    "#]]
    .assert_eq(&told(&bundle(rules), &["none"], r#"{"amount": 5000, "to": "eve@other.example"}"#));
}

#[test]
fn what_is_not_found_is_said_to_be_not_found() {
    let rules = "decision := {\"decision\": \"deny\", \"reasons\": [{\"rule\": \"r\", \"message\": \"m\"}]}\n";
    expect![[r#"
        deny
        r at rules.rego:3
        nothing found
    "#]]
    .assert_eq(&told(&bundle(rules), &["none"], "{}"));
    expect![[r#"
        the policy has no decision for this call
        change /args/x from 1 to 8
    "#]]
    .assert_eq(&told(&bundle("decision := true if input.args.x > 7\n"), &[], r#"{"x": 1}"#));
}
