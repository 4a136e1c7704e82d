//! Usage of calls, added up.

use serde_json::{Value, json};

use crate::{
    support::{Place, Server, command, ran, until},
    wire,
};

fn usage(server: &Server, query: &str) -> Value {
    let answer = server.ask("GET", &format!("/v1/usage{query}"), None);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

#[test]
fn calls_are_added_up_by_day_key_and_tool() {
    let place = Place::new();
    let server = place.serve();
    server.call("echo", &json!({"text": "x"}));
    server.call("echo", &json!({"text": "y"}));
    let code = "sum(range(3_000_000)); print('z' * 1000); raise SystemExit(3)";
    let failed = server.call("code_execute", &json!({"code": code}));
    assert_eq!(failed["error"]["code"], "code_failed", "{failed}");
    let made = server.ask(
        "POST",
        "/v1/keys",
        Some(&json!({"label": "agent", "scopes": ["call", "read"], "tenant": "acme"})),
    );
    let made = made.json();
    let key = [("authorization", format!("Bearer {}", made["secret"].as_str().expect("a secret")))];
    let ask = |path: &str| wire::ask(&server.address, "GET", path, &key, None).expect("an answer");
    let echo = json!({"tool": "echo", "args": {"text": "of acme"}});
    wire::ask(&server.address, "POST", "/v1/calls", &key, Some(&echo)).expect("an answer");

    let by_tool = usage(&server, "?by=tool");
    let rows = by_tool["rows"].as_array().expect("rows");
    let of = |tool: &str| rows.iter().find(|row| row["tool"] == tool).expect("a row").clone();
    assert_eq!((&of("echo")["calls"], &of("echo")["failures"]), (&json!(2), &json!(0)));
    let code = of("code_execute");
    assert_eq!((&code["calls"], &code["failures"]), (&json!(1), &json!(1)), "{code}");
    assert!(code["cpu_seconds"].as_f64() > Some(0.0), "{code}");
    assert!(code["output_bytes"].as_u64() >= Some(1_001), "{code}");
    assert_eq!((&by_tool["total"]["calls"], &by_tool["has_more"]), (&json!(3), &json!(false)));
    assert_eq!(usage(&server, "?by=key&per=hour&tool=echo")["total"]["calls"], 2);
    // Each tenant sees its own, and the operator all.
    assert_eq!(ask("/v1/usage").json()["total"]["calls"], 1);
    assert_eq!(ask("/v1/usage?tenant=default").json()["code"], "operator_required");
    assert_eq!(ask("/v1/usage?tenant=*").json()["code"], "operator_required");
    assert_eq!(usage(&server, "?tenant=*")["total"]["calls"], 4);
    assert_eq!(usage(&server, "?tenant=acme")["total"]["calls"], 1);
    for (query, faults) in [
        ("?from=2020-01-01&until=2026-01-01", 1),
        ("?from=2026-01-01&until=2026-03-01&per=hour", 1),
        ("?from=yesterday&by=mood&per=week", 3),
        ("?from=2026-01-02&until=2026-01-01", 1),
    ] {
        let refused = server.ask("GET", &format!("/v1/usage{query}"), None);
        assert_eq!((refused.status, &refused.json()["code"]), (400, &json!("query_invalid")));
        assert_eq!(refused.json()["errors"].as_array().map(Vec::len), Some(faults), "{refused:?}");
    }
    let shown = server.client(&["usage", "--by", "tool"]).worked().stdout;
    assert!(shown.starts_with("WHEN ") && shown.contains("echo"), "{shown}");
    assert!(shown.lines().last().is_some_and(|line| line.starts_with("total")), "{shown}");
    let budget = json!({"tenant": "default", "per": "day", "calls": 4, "cpu_seconds": 60});
    let set = server.ask("PUT", "/v1/budgets", Some(&budget));
    assert_eq!((set.status, &set.json()["budgets"][0]["calls"]["used"]), (200, &json!(3.0)));
    let shown = server.client(&["usage"]).worked().stdout;
    assert!(shown.contains("\nbudget per day: 3 of 4 calls, "), "{shown}");
    server.call("echo", &json!({"text": "the last"}));
    let over = server.call("echo", &json!({"text": "one more"}));
    assert_eq!(
        (&over["state"], &over["reasons"][0]["rule"]),
        (&json!("held"), &json!("budget")),
        "{over}"
    );
    let removed = server.ask("DELETE", "/v1/budgets?tenant=default&per=day", None);
    assert_eq!(removed.status, 204);
    let path = format!("/v1/calls/{}?wait=30", over["id"].as_str().expect("an id"));
    until("it goes on", || server.ask("GET", &path, None).json()["state"] == "finished");
    assert_eq!(ask("/v1/budgets").json()["code"], "scope_missing");
    let data = server.data.clone();
    // It is kept: a server that comes back knows it.
    server.stop();
    let again = place.serve();
    assert_eq!(usage(&again, "")["total"]["calls"], 5);
    let json = ran(&mut command(&["usage", "--json", "--data", &data])).worked().json();
    assert_eq!((&json["calls"], &json["failures"]), (&json!(5), &json!(1)), "{json}");
}
