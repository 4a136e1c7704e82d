//! Built-in rules, which are in force by default.

use std::path::Path;

use expect_test::expect;
use ringfence_policy::{Bundle, Rego, Suite, TestOutcome, contract, contract::document, decide};
use ringfence_types::Verdict;

#[tokio::test]
async fn they_keep_the_contract() {
    contract::run(&Rego::load(&Bundle::built_in()).expect("built-in rules")).await;
}

#[tokio::test]
async fn flags_and_verdicts() {
    let rego = Rego::load(&Bundle::built_in()).expect("built-in rules");
    let flags = [
        "",
        "none",
        "pii_risk",
        "file_system",
        "side_effect",
        "external_call",
        "network_access",
        "telepathy",
        "none pii_risk",
        "none side_effect",
        "side_effect network_access",
        "file_system telepathy",
        "none none",
        "telepathy clairvoyance",
    ];
    let mut table = String::new();
    for (flags, approval) in
        flags.into_iter().map(|f| (f, false)).chain([("none", true), ("telepathy", true)])
    {
        let mut input = document(&flags.split_whitespace().collect::<Vec<_>>(), "{}");
        input.tool.requires_approval = approval;
        let decided = decide(&rego, &input).await;
        let decision = decided.decision();
        let rules: Vec<_> = decision.reasons.iter().map(|reason| reason.rule.as_str()).collect();
        let ask = if approval { "approve " } else { "" };
        let verdict = decision.verdict.name();
        table += &format!("{:28} {verdict:6} {}\n", format!("{ask}[{flags}]"), rules.join(", "));
    }
    expect![[r#"
        []                           hold   no_flags
        [none]                       allow  none
        [pii_risk]                   allow  pii_risk
        [file_system]                allow  file_system
        [side_effect]                hold   side_effect
        [external_call]              hold   external_call
        [network_access]             hold   network_access
        [telepathy]                  deny   unknown_flag
        [none pii_risk]              allow  none, pii_risk
        [none side_effect]           hold   side_effect, none
        [side_effect network_access] hold   side_effect, network_access
        [file_system telepathy]      deny   unknown_flag, file_system
        [none none]                  allow  none
        [telepathy clairvoyance]     deny   unknown_flag
        approve [none]               hold   requires_approval, none
        approve [telepathy]          deny   unknown_flag, requires_approval
    "#]]
    .assert_eq(&table);
}

#[tokio::test]
async fn a_refusal_says_what_would_change_it() {
    let rego = Rego::load(&Bundle::built_in()).expect("built-in rules");
    let decided = decide(&rego, &document(&["side_effect", "telepathy"], "{}")).await;
    let messages: String =
        decided.decision().reasons.iter().map(|r| format!("{}: {}\n", r.rule, r.message)).collect();
    expect![[r#"
        unknown_flag: no rule knows the safety flag `telepathy`: write one, or remove the flag
        side_effect: the tool changes something outside its sandbox: a person must approve the call
    "#]]
    .assert_eq(&messages);
}

#[tokio::test]
async fn many_long_unknown_flags_are_still_a_denial() {
    let rego = Rego::load(&Bundle::built_in()).expect("built-in rules");
    let flags: Vec<_> = (0..500).map(|index| format!("{index}{}", "😀".repeat(500))).collect();
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let decided = decide(&rego, &document(&flags, "{}")).await;
    assert_eq!(decided.decision().verdict, Verdict::Deny);
    assert_eq!(decided.decision().reasons[0].rule, "unknown_flag");
}

/// Runs every `test_*` rule of the folder against the rules as they are shipped.
#[test]
fn their_own_tests_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policy");
    let bundle = Bundle::from_folder(&folder).expect("the folder of the built-in rules");
    assert_eq!(bundle.digest(), Bundle::built_in().digest(), "the folder is what is built in");
    let suite = Suite::run(&bundle).expect("the folder of the built-in rules");
    assert!(suite.tests.len() >= 13, "tests were found: {:?}", suite.tests);
    for test in &suite.tests {
        assert_eq!(test.outcome, TestOutcome::Passed, "{}", test.name);
    }
    let missed: Vec<_> = suite.coverage.iter().map(|file| (&file.file, &file.missed)).collect();
    assert_eq!(missed, [(&"ringfence.rego".to_owned(), &Vec::new())], "every line is tested");
}
