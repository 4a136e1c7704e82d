use super::*;

fn read_from(text: &str) -> (Policy, Option<String>) {
    let table: Table = text.parse().expect("TOML");
    let mut problems = Problems::default();
    let policy = read(None, Some((&table, Path::new("f"))), &mut problems);
    (policy, problems.none().err().map(|failure| failure.text()))
}

const WHOLE: &str = r#"
    use = ["rego", "corp"]
    [engines.corp]
    kind = "opa"
    url = "http://127.0.0.1:8181"
    timeout = "250ms"
    undefined = "abstain"
    [engines.relations]
    kind = "openfga"
    url = "http://127.0.0.1:8080"
    store = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    model = "01ARZ3NDEKTSV4RRFFQ69G5FAW"
    tell = [{ user = "key:{key}", relation = "member", object = "org:{tenant}" }]
    [[route]]
    tenants = ["acme"]
    actions = ["tool.execute"]
    use = ["relations", "rego"]
    combine = "first"
    [[canary]]
    name = "stricter"
    tenants = ["acme"]
    engine = "corp"
    fail_open = true
    [log]
    url = "http://127.0.0.1:9/logs"
    erase = ["/input/args"]
"#;

#[test]
fn tables_become_engines_routes_canaries_and_a_log() {
    let (policy, problems) = read_from(WHOLE);
    assert_eq!(problems, None);
    let names: Vec<_> = policy.engines.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["corp", "relations"]);
    let Elsewhere::Opa(corp) = &policy.engines[0].1 else { panic!("{policy:?}") };
    assert_eq!(corp.remote.timeout.as_millis(), 250);
    let routes: Vec<_> = policy.routes.iter().map(|r| (r.engines.join(" "), r.how)).collect();
    assert_eq!(routes, [("relations rego".into(), How::First), ("rego corp".into(), How::All)]);
    assert!(policy.canaries[0].fail_open);
    assert_eq!(policy.log.expect("a log").erase, ["/input/args"]);
}

#[test]
fn without_tables_the_embedded_rules_decide_alone() {
    let policy = read(None, None, &mut Problems::default());
    assert_eq!(policy.routes[0].engines, ["rego"]);
    assert!(policy.engines.is_empty() && policy.canaries.is_empty() && policy.log.is_none());
}

#[test]
fn all_problems_of_all_tables_are_told_with_their_place() {
    let (_, problems) = read_from(
        r#"
        use = ["rego", "unknown"]
        combin = "all"
        [engines.rego]
        kind = "opa"
        [engines.a]
        kind = "oracle"
        url = "ftp://a"
        [engines.b]
        kind = "opa"
        url = "http://u:p@a"
        path = "/v2"
        timeout = "1h"
        retries = 3
        [[route]]
        tenants = ["no tenant"]
        [[canary]]
        name = "c"
        folder = "x"
        fail_open = true
        [log]
        "#,
    );
    let told = problems.expect("problems");
    for part in [
        "f: policy.use: no engine is called `unknown`",
        "f: policy.combin: is no setting; did you mean `combine`?",
        "f: policy.engines.rego.kind: `rego` is the name of the rules in this process",
        "f: policy.engines.a.kind: `oracle` is none of opa, openfga, authzen, evaluate",
        "f: policy.engines.a.url: is not an address",
        "f: policy.engines.b.url: an address with a name or a password",
        "f: policy.engines.b.path: does not begin with /v1/data/",
        "f: policy.engines.b.timeout: is longer than 4s",
        "f: policy.engines.b.retries: is no setting",
        "f: policy.route[0].use: is missing",
        "f: policy.route[0].tenants: `no tenant` is not a valid",
        "f: policy.canary[0].fail_open: needs `tenants`",
        "f: policy.log.file: or `url`",
    ] {
        assert!(told.contains(part), "no `{part}` in {told}");
    }
    assert!(!told.contains("u:p"), "{told}");
}

#[test]
fn every_value_is_a_row() {
    let table: Table = WHOLE.parse().expect("TOML");
    let rows = rows(&table);
    let row =
        |name: &str| rows.iter().find(|(row, _)| row == name).map(|(_, value)| value.as_str());
    assert_eq!(row("policy.engines.corp.url"), Some("http://127.0.0.1:8181"));
    assert_eq!(row("policy.route[0].combine"), Some("first"));
    assert_eq!(row("policy.canary[0].fail_open"), Some("true"));
    assert_eq!(row("policy.use"), Some(r#"["rego", "corp"]"#));
}
