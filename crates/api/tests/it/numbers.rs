//! Numbers on the whole way: from the wire through a sandbox and back.

use serde_json::json;

use crate::support::{Answer, Plan, Server, send};

const MIRROR: &[(&str, &str)] = &[
    (
        "skill.yaml",
        "name: mirror\nversion: 1.0.0\ndescription: Gives back what it gets.\n\
         handler: handler.run\nsafety_flags: [none]\n",
    ),
    (
        "schema.json",
        r#"{"input":{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]},
            "output":{"type":"object"}}"#,
    ),
    ("handler.py", "def run(n):\n    return {'n': n, 'kind': type(n).__name__}\n"),
];

/// Sent as text: a tree of values would already have lost what is looked for.
async fn mirror(server: &Server, path: &str, name: &str, number: &str) -> Answer {
    let body = format!(r#"{{"{name}":"mirror","args":{{"n":{number}}}}}"#);
    let request = server.request("POST", path).header("content-type", "application/json");
    send(request.body(body)).await
}

fn holds(answer: &Answer, part: &str) {
    let text = String::from_utf8_lossy(&answer.bytes);
    assert!(answer.status == 200 && text.contains(part), "no `{part}` in {text}");
}

#[tokio::test]
async fn a_number_reaches_a_skill_and_comes_back_digit_by_digit() {
    let plan = Plan::sandboxed().skills(vec![("mirror", MIRROR.to_vec())]);
    let server = Server::of(plan).await;
    let long = format!("{}{}", "7".repeat(300), "1");
    let cases = [
        ("1180591620717411303424", "int"),
        ("-9223372036854775809", "int"),
        ("18446744073709551616", "int"),
        (long.as_str(), "int"),
        ("0.1", "float"),
        ("-0.0", "float"),
        ("1e+300", "float"),
    ];
    for (number, kind) in cases {
        let expected = format!(r#"{{"n":{number},"kind":"{kind}"}}"#);
        holds(&mirror(&server, "/v1/calls", "tool", number).await, &expected);
        holds(&mirror(&server, "/skills/execute", "skill", number).await, &expected);
    }
    server.stop().await;
}

/// No tool could read these as the number that was written, so none gets them.
#[tokio::test]
async fn a_number_beyond_every_range_is_refused() {
    let plan = Plan::default().skills(vec![("mirror", MIRROR.to_vec())]);
    let server = Server::of(plan).await;
    let endless = "1".repeat(4_301);
    for number in ["1e400", "-1e400", "1e999999999", endless.as_str(), "NaN", "Infinity"] {
        let answer = mirror(&server, "/v1/calls", "tool", number).await;
        assert_eq!((answer.status, answer.problem().as_str()), (400, "body_malformed"), "{number}");
    }
    server.stop().await;
}

#[tokio::test]
async fn names_that_code_left_keep_their_digits() {
    let server = Server::of(Plan::sandboxed()).await;
    let body = json!({"tool": "code_execute", "args": {"language": "python", "code": "x = 2**70"}});
    let answer = server.post("/v1/calls", &body).await;
    holds(&answer, r#""locals":{"x":1180591620717411303424}"#);
    server.stop().await;
}
