//! A stored decision becomes a test that runs.

use expect_test::expect;
use ringfence_policy::{Bundle, Rego, Suite, TestOutcome, contract, decide, test_case};

/// The rules of a bundle and one more test.
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
    "#]]
    .assert_eq(&test);
    let rules = "package ringfence\n\ndecision := {\"decision\": \"allow\"}\n";
    let other = Bundle::from_files([("rules.rego", rules)]).expect("a bundle");
    let TestOutcome::Failed(Some(at)) = only(&with(&other, test)) else { panic!("it must fail") };
    assert_eq!(at.text, "decision.decision == \"hold\"");
}
