//! A stored decision becomes a test that runs.

use expect_test::expect;
use ringfence_policy::{Bundle, Rego, Suite, TestOutcome, contract, decide, test_case};

/// Bundle with one more test.
fn with(bundle: &Bundle, test: String) -> Bundle {
    let files = bundle.files().map(|(name, text)| (name.to_owned(), text.to_owned()));
    Bundle::from_files(files.chain([("case_test.rego".to_owned(), test)])).expect("a bundle")
}

fn only(bundle: &Bundle) -> TestOutcome {
    let suite = Suite::run(bundle).expect("a suite");
    let [test] = suite.tests.as_slice() else { panic!("{:?}", suite.tests) };
    test.outcome.clone()
}

#[tokio::test]
async fn every_document_of_the_contract_becomes_a_test_that_passes() {
    let rules = "package ringfence\n\ndecision := input.tool.name == \"echo\"\n";
    let bare = Bundle::from_files([("rules.rego", rules)]).expect("a bundle");
    for bundle in [Bundle::built_in(), bare] {
        let rego = Rego::load(&bundle).expect("rules");
        for input in contract::documents().iter().filter(|input| input.text().len() < 100_000) {
            let decided = decide(&rego, input).await;
            let test = test_case("one", "One.", &input.text(), decided.decision()).expect("a case");
            assert_eq!(only(&with(&bundle, test.clone())), TestOutcome::Passed, "{test}");
        }
    }
}

#[tokio::test]
async fn rules_that_decide_otherwise_fail_it() {
    let built_in = Bundle::built_in();
    let input = contract::document(&["side_effect"], r#"{"to": "ann"}"#);
    let decided = decide(&Rego::load(&built_in).expect("rules"), &input).await;
    let test =
        test_case("decision_7", "Decision 7.", &input.text(), decided.decision()).expect("a case");
    expect![[r#"
        package ringfence_decision_7_test

        import data.ringfence

        # Decision 7.
        # Under the rules sha256:….
        test_decision_7 if {
        	decision := ringfence.decision with input as {
        		"action": "tool.execute",
        		"approval": null,
        		"args": {
        			"to": "ann"
        		},
        		"call_id": "019a8b7c-1234-7abc-8def-0123456789ab",
        		"grants": [],
        		"metadata": {},
        		"network": [],
        		"parent_call_id": null,
        		"persona_id": null,
        		"plan_step": null,
        		"principal": {
        			"key": "019a8b7c-1234-7abc-8def-000000000001",
        			"scopes": [
        				"call"
        			]
        		},
        		"secrets": [],
        		"session_id": null,
        		"taint": [],
        		"tenant": "acme",
        		"time": "2023-11-14T22:13:20.000000Z",
        		"tool": {
        			"digest": "sha256:7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d",
        			"name": "echo",
        			"origin": "builtin",
        			"pure": true,
        			"requires_approval": false,
        			"safety_flags": [
        				"side_effect"
        			],
        			"tags": [],
        			"version": "1.0.0"
        		}
        	}
        	decision.decision == "hold"
        	reasons := object.get(decision, "reasons", [])
        	{reason.rule | some reason in reasons} == {"side_effect"}
        }
    "#]]
    .assert_eq(&test.replace(&built_in.digest().to_string(), "sha256:…"));
    let rules = "package ringfence\n\ndecision := {\"decision\": \"allow\"}\n";
    let other = Bundle::from_files([("rules.rego", rules)]).expect("a bundle");
    let TestOutcome::Failed(Some(at)) = only(&with(&other, test)) else { panic!("it must fail") };
    assert_eq!(at.text, "decision.decision == \"hold\"");
}
