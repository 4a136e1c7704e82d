//! Answers that real servers cannot be made to give: bytes that two parsers read differently, errors
//! beside a decision, and unknown fields. A small server gives them, and every engine has to hold the
//! call.

use ringfence_policy::{
    AuthZen, Engine, Evaluate, Opa, OpenFga, OpenFgaConfig, POLICY_UNAVAILABLE, Trouble,
    contract::document, decide,
};
use ringfence_testkit::HttpServer;
use ringfence_types::Verdict;

use super::{opa, remote};

/// Engine with the response of its server.
struct Case {
    engine: &'static str,
    answer: &'static str,
    /// Expected failure; `None` for the control.
    trouble: Option<Trouble>,
}

const fn control(engine: &'static str, answer: &'static str) -> Case {
    Case { engine, answer, trouble: None }
}

const fn malformed(engine: &'static str, answer: &'static str) -> Case {
    Case { engine, answer, trouble: Some(Trouble::Malformed) }
}

const fn failed(engine: &'static str, answer: &'static str) -> Case {
    Case { engine, answer, trouble: Some(Trouble::Failed) }
}

const CASES: &[Case] = &[
    control("opa", r#"{"result":{"decision":"allow"},"decision_id":"1","warning":{"code":"w"}}"#),
    malformed("opa", r#"{"result":{"decision":"deny","decision":"allow"}}"#),
    malformed("opa", r#"{"result":{"decision":"deny","d\u0065cision":"allow"}}"#),
    malformed("opa", r#"{"result":false,"result":true}"#),
    malformed("opa", r#"{"result":true}{"result":false}"#),
    malformed("opa", r#"{"result":true,"only_if":"approved"}"#),
    failed("opa", r#"{"result":true,"errors":[{"message":"eval_conflict_error"}]}"#),
    failed("opa", r#"{"result":true,"error":"rules not loaded"}"#),
    failed("opa", r#"{"errors":[]}"#),
    control("openfga", r#"{"allowed":true,"resolution":""}"#),
    malformed("openfga", r#"{"allowed":false,"allowed":true}"#),
    malformed("openfga", r#"{"allowed":true,"condition":"office_hours"}"#),
    failed("openfga", r#"{"allowed":true,"error":{"message":"model not found"}}"#),
    failed("openfga", r#"{"allowed":true,"errors":null}"#),
    control("authzen", r#"{"decision":true,"context":{"reason":"yes"}}"#),
    malformed("authzen", r#"{"decision":false,"decision":true}"#),
    malformed("authzen", r#"{"decision":true,"context":{"decision":"deny","decision":"allow"}}"#),
    malformed("authzen", r#"{"decision":true,"context":{"errors":["x"]}}"#),
    failed("authzen", r#"{"decision":true,"errors":["store unavailable"]}"#),
    failed("authzen", r#"{"decision":true,"error":{"status":500,"message":"x"}}"#),
    control("evaluate", r#"{"allowed":true,"score":1.0,"severity":"low"}"#),
    malformed("evaluate", r#"{"allowed":false,"allowed":true}"#),
    malformed("evaluate", r#"{"allowed":true,"decision":{"decision":"deny","decision":"allow"}}"#),
    malformed("evaluate", r#"{"allowed":true,"requires":"mfa"}"#),
    failed("evaluate", r#"{"allowed":true,"errors":["constitution missing"]}"#),
    failed("evaluate", r#"{"allowed":true,"error":"constitution missing"}"#),
];

fn engine(name: &str, url: &str) -> Box<dyn Engine> {
    let at = remote(name, url);
    match name {
        "opa" => Box::new(Opa::open(opa(url)).expect("a client")),
        "authzen" => Box::new(AuthZen::open(at).expect("a client")),
        "evaluate" => Box::new(Evaluate::open(at).expect("a client")),
        _ => {
            let config = OpenFgaConfig::usual(at, "store".to_owned(), "model".to_owned());
            Box::new(OpenFga::open(config).expect("a client"))
        }
    }
}

#[tokio::test]
async fn answers_with_repeated_keys_errors_or_unknown_fields_hold_the_call() {
    for case in CASES {
        let server = HttpServer::open(|_, _| (200, case.answer.to_owned())).expect("a server");
        let engine = engine(case.engine, &server.url());
        let (about, input) = (format!("{}: {}", case.engine, case.answer), document(&[], "{}"));
        let found = engine.evaluate(&input).await.err().map(|unavailable| unavailable.trouble);
        assert_eq!(found, case.trouble, "{about}");
        let decided = decide(engine.as_ref(), &input).await;
        let reasons = &decided.decision().reasons;
        let is_parked = reasons.iter().any(|reason| reason.rule == POLICY_UNAVAILABLE);
        let expected = if case.trouble.is_some() { Verdict::Hold } else { Verdict::Allow };
        assert_eq!((decided.decision().verdict, is_parked), (expected, case.trouble.is_some()));
    }
}
