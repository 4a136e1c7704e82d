//! Policy as a server is configured: a real OPA that goes away and comes back, rules that change,
//! candidates, and the view of operators.

use ringfence_testkit::{Opa, server};
use serde_json::{Value, json};

use crate::support::{Place, Server, command, ran, shown, until};

const RULES: &str = "package ringfence
decision := {\"decision\": \"allow\"} if input.args.text != \"no\"
decision := {\"decision\": \"deny\"} if input.args.text == \"no\"
";

/// Writes the settings file of a place.
fn configure(place: &Place, text: &str) {
    std::fs::create_dir_all(place.data()).expect("a data directory");
    std::fs::write(place.data().join("ringfence.toml"), text).expect("settings");
}

/// The state and the verdict's rule of a call of `echo`.
fn echo(server: &Server, text: &str) -> Value {
    let body = json!({"tool": "echo", "args": {"text": text}});
    server.ask("POST", "/v1/calls", Some(&body)).json()
}

fn state(call: &Value) -> &str {
    call["state"].as_str().unwrap_or_default()
}

fn ready(server: &Server) -> Value {
    server.ask("GET", "/readyz", None).json()
}

#[test]
fn calls_are_held_while_a_real_opa_is_frozen_and_decided_when_it_is_back() {
    let test = "calls_are_held_while_a_real_opa_is_frozen_and_decided_when_it_is_back";
    let Some(program) = server::OPA.program_or_skip(test) else { return };
    let mut opa = Opa::start(&program, "1", &[("r.rego", RULES)]).expect("OPA serves");
    let place = Place::new();
    let url = opa.url();
    configure(
        &place,
        &format!(
            "[policy]\nuse = [\"rego\", \"corp\"]\n[policy.engines.corp]\nkind = \"opa\"\n\
             url = \"{url}\"\ntimeout = \"500ms\"\n"
        ),
    );
    let server = place.serve();
    let call = echo(&server, "yes");
    assert_eq!(state(&call), "finished", "{call}");
    assert_eq!(call["decision"]["engine"], "all(rego,corp)");
    assert_eq!(state(&echo(&server, "no")), "denied");
    opa.process().freeze();
    let mut held = Vec::new();
    for text in ["yes", "no", "yes", "yes", "no"] {
        let call = echo(&server, text);
        assert_eq!(state(&call), "held", "{call}");
        assert_eq!(call["decision"]["reasons"][0]["rule"], "policy_unavailable");
        let end = if text == "yes" { "finished" } else { "denied" };
        held.push((call["id"].as_str().expect("an id").to_owned(), end));
    }
    assert_eq!(ready(&server)["policy"]["state"], "down");
    let status = server.client(&["policy", "status"]).worked();
    assert!(status.stdout.contains("corp") && status.stdout.contains("down"), "{status:?}");
    assert_eq!(server.ask("GET", "/readyz", None).status, 200, "held calls are taken");
    opa.process().thaw();
    for (id, end) in held {
        let path = format!("/v1/calls/{id}");
        until("a held call is decided", || state(&server.ask("GET", &path, None).json()) == end);
    }
    until("decisions flow again", || state(&echo(&server, "yes")) == "finished");
    assert_eq!(state(&echo(&server, "no")), "denied");
    assert_eq!(ready(&server)["policy"]["state"], "well");
    let metrics = server.ask("GET", "/metrics", None).body;
    let line = "ringfence_policy_engine_state{engine=\"corp\",state=\"well\"} 1";
    assert!(metrics.contains(line), "{metrics}");
}

#[test]
fn one_server_decides_for_another_by_either_protocol() {
    let (first, second) = (Place::new(), Place::new());
    let folder = first.path("policy");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("r.rego"), RULES).expect("a rule");
    let decider = first.serve_with(&[("RINGFENCE_POLICY", &shown(&folder))]);
    let token = shown(&first.data().join("admin.key"));
    for kind in ["authzen", "evaluate"] {
        let url = format!("http://{}", decider.address);
        configure(
            &second,
            &format!(
                "[policy]\nuse = [\"peer\"]\n[policy.engines.peer]\nkind = \"{kind}\"\n\
                 url = \"{url}\"\ntoken_file = \"{token}\"\ntimeout = \"4s\"\n"
            ),
        );
        let server = second.serve();
        let (yes, no) = (echo(&server, "yes"), echo(&server, "no"));
        assert_eq!((state(&yes), state(&no)), ("finished", "denied"), "{kind}: {yes} {no}");
        assert_eq!(yes["decision"]["engine"], "peer");
        assert_eq!(yes["decision"]["policy"], decider.banner["policy"], "{kind}");
        server.kill();
    }
}

#[test]
fn rules_of_a_folder_are_replaced_and_bad_ones_are_loudly_refused() {
    let place = Place::new();
    let folder = place.path("policy");
    std::fs::create_dir(&folder).expect("a folder");
    let write = |text: &str| std::fs::write(folder.join("r.rego"), text).expect("a rule");
    write(RULES);
    let server = place.serve_with(&[("RINGFENCE_POLICY", &shown(&folder))]);
    assert_eq!(state(&echo(&server, "yes")), "finished");
    let before = echo(&server, "no")["decision"]["policy"].clone();
    write("package ringfence\ndecision := starwith(1)\n");
    until("the bad rules are seen", || ready(&server)["policy"]["state"] == "stale");
    assert_eq!(echo(&server, "no")["decision"]["policy"], before, "the old ones are in force");
    let status = server.client(&["policy", "status", "--json"]).worked().json();
    assert_eq!(status["engines"][0]["state"], "stale");
    let problem = status["engines"][0]["problems"][0].as_str().unwrap_or_default();
    assert!(problem.contains("no function `starwith`"), "{status}");
    let log = std::fs::read_to_string(place.path("log")).expect("a log");
    assert!(log.contains("ERROR") && log.contains("the older ones stay in force"), "{log}");
    write(&RULES.replace("\"no\"", "\"yes\""));
    until("the good rules are in force", || state(&echo(&server, "yes")) == "denied");
    assert_eq!(state(&echo(&server, "no")), "finished");
    assert_eq!(ready(&server)["policy"]["state"], "well");
}

#[test]
fn a_candidate_is_tried_on_real_calls_and_its_differences_are_listed() {
    let place = Place::new();
    let folder = place.path("candidate");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("r.rego"), RULES).expect("a rule");
    let candidate = shown(&folder);
    configure(
        &place,
        &format!(
            "[[policy.canary]]\nname = \"stricter\"\nfolder = \"{candidate}\"\n\
             tenants = [\"default\"]\nfail_open = true\n[policy.log]\nfile = \"{}\"\n",
            shown(&place.path("decisions.ndjson"))
        ),
    );
    let server = place.serve();
    assert_eq!(state(&echo(&server, "yes")), "finished");
    let call = echo(&server, "no");
    assert_eq!(state(&call), "finished", "a candidate changes nothing: {call}");
    let canary = || server.client(&["policy", "canary", "--json"]).worked().json();
    until("both were compared", || {
        let counts = &canary()["canaries"][0]["counts"];
        counts["same"] == 1 && counts["different"] == 1
    });
    let found = canary();
    let difference = &found["canaries"][0]["differences"][0];
    assert_eq!(difference["call_id"], call["id"]);
    assert_eq!(difference["candidate"]["verdict"], "deny");
    let words = server.client(&["policy", "canary"]).worked().stdout;
    assert!(words.contains("stricter") && words.contains("deny"), "{words}");
    assert_eq!(ready(&server)["policy"]["fail_open_tenants"], 1);
    let status = server.client(&["policy", "status"]).worked();
    assert!(status.stderr.contains("calls of tenant default RUN"), "{status:?}");
    let metrics = server.ask("GET", "/metrics", None).body;
    let line = "ringfence_policy_canary_total{canary=\"stricter\",result=\"different\"} 1";
    assert!(metrics.contains(line), "{metrics}");
    assert_eq!(server.stop(), Some(0));
    let log = std::fs::read_to_string(place.path("decisions.ndjson")).expect("a decision log");
    assert_eq!(log.lines().count(), 2, "{log}");
    let logged: Value = serde_json::from_str(log.lines().last().expect("a line")).expect("JSON");
    assert_eq!(logged["trace_id"], call["trace_id"]);
}

#[test]
fn what_was_found_about_a_candidate_outlives_a_kill() {
    let place = Place::new();
    let folder = place.path("candidate");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("r.rego"), RULES).expect("a rule");
    let canary =
        format!("[[policy.canary]]\nname = \"stricter\"\nfolder = \"{}\"\n", shown(&folder));
    configure(&place, &canary);
    let mut calls = Vec::new();
    for round in 1..=2 {
        let server = place.serve();
        calls.push(echo(&server, "no")["id"].clone());
        let found = || server.ask("GET", "/v1/policy/canary", None).json()["canaries"][0].clone();
        until("it was compared", || found()["counts"]["different"] == round);
        let found = found();
        let listed: Vec<_> =
            found["differences"].as_array().expect("a list").iter().rev().collect();
        let listed: Vec<_> = listed.iter().map(|one| one["call_id"].clone()).collect();
        assert_eq!(listed, calls);
        assert!(found["since"].is_string(), "{found}");
        // What was shown is on record.
        server.kill();
    }
    let server = place.serve();
    let page = |query: &str| {
        server.ask("GET", &format!("/v1/policy/canary?{query}"), None).json()["canaries"].clone()
    };
    let first = page("name=stricter&limit=1")[0].clone();
    let older = page(&format!("name=stricter&limit=1&cursor={}", first["next_cursor"]));
    assert_eq!(older[0]["differences"][0]["call_id"], calls[0]);
    assert_eq!(page("name=other"), json!([]));
    assert_eq!(page(&format!("limit=1&cursor={}", first["next_cursor"])), older);
    assert_eq!(server.ask("GET", "/v1/policy/canary?limit=0", None).status, 400);
}

#[test]
fn each_of_several_engines_is_explained_or_named_as_one_that_cannot_be() {
    let place = Place::new();
    // The first has an opinion, so the second is not asked.
    let elsewhere = "[policy.engines.corp]\nkind = \"opa\"\nurl = \"http://127.0.0.1:9\"\n";
    configure(
        &place,
        &format!("[policy]\nuse = [\"rego\", \"corp\"]\ncombine = \"first\"\n{elsewhere}"),
    );
    let server = place.serve();
    let held = server.call("http_fetch", &json!({"url": "https://example.com/"}));
    let id = held["id"].as_str().expect("an id").to_owned();
    let told = server.client(&["policy", "explain", &id, "--json"]).worked().json();
    let part = |index: usize| &told["parts"][index];
    let named = |index: usize| (part(index)["engine"].clone(), part(index)["explained"].clone());
    assert_eq!([named(0), named(1)], [(json!("rego"), json!(true)), (json!("corp"), json!(false))]);
    assert_eq!(part(0)["reasons"][0]["rule"], "external_call");
    assert_eq!((&part(1)["says"], &part(1)["reasons"]), (&Value::Null, &json!([])));
    let words = server.client(&["policy", "explain", &id]).worked().stdout;
    for line in
        ["engine rego under sha256:", " says hold", "external_call: ", "engine corp: its rules"]
    {
        assert!(words.contains(line), "no `{line}` in {words}");
    }
    server.stop();
    configure(&place, &format!("[policy]\nuse = [\"corp\"]\n{elsewhere}"));
    let server = place.serve();
    server.client(&["policy", "explain", &id]).failed(2, &["not files of this server: corp has"]);
}

#[test]
fn tables_of_policy_are_shown_and_everything_wrong_in_them_is_told() {
    let place = Place::new();
    configure(
        &place,
        "[policy]\nuse = [\"rego\"]\n[policy.engines.corp]\nkind = \"opa\"\nurl = \"http://a:1\"\n",
    );
    let data = shown(&place.data());
    let shown = ran(&mut command(&["config", "show", "--data", &data])).worked().stdout;
    assert!(shown.contains("policy.engines.corp.url") && shown.contains("http://a:1"), "{shown}");
    configure(&place, "[policy]\nuse = [\"unknown\"]\nfolder = 7.5\n[policy.engines.x]\nurl = 1\n");
    let told = ran(&mut command(&["serve", "--data", &data]));
    told.failed(
        2,
        &[
            "policy.use: no engine is called `unknown`",
            "policy.engines.x.kind: is missing",
            "policy.engines.x.url: is not text",
        ],
    );
}

#[test]
fn the_built_in_rules_can_be_printed_and_put_in_force() {
    let place = Place::new();
    let rules = place.path("rules");
    std::fs::create_dir(&rules).expect("a folder");
    let printed = ran(&mut command(&["policy", "show"])).worked().stdout;
    std::fs::write(rules.join("ringfence.rego"), &printed).expect("a file");
    let server = place.serve_with(&[("RINGFENCE_POLICY", &shown(&rules))]);
    let told = server.client(&["policy", "show", "--server"]).worked().stdout;
    let digest = server.banner["policy"].as_str().expect("a digest");
    for part in ["tenant  default\n", "engine  ", digest, "\nringfence.rego  "] {
        assert!(told.contains(part), "no {part} in {told}");
    }
    let told = server.client(&["policy", "show", "--server", "--json"]).worked().json();
    assert_eq!(told["rules"][0]["bytes"], printed.len());
    drop(server);
    let built_in = Place::new().serve().banner["policy"].clone();
    assert_eq!(told["policy"], built_in, "the same rules have the same digest");
}

#[test]
fn denied_calls_of_a_tenant_are_held_and_run_once_policy_allows_them() {
    let place = Place::new();
    let folder = place.path("rules");
    std::fs::create_dir(&folder).expect("a folder for rules");
    std::fs::write(folder.join("r.rego"), RULES).expect("rules");
    let file = format!("policy = {:?}\n", shown(&folder));
    configure(&place, &file);
    let server = place.serve();
    assert_eq!(state(&echo(&server, "no")), "denied", "a denial is final by default");
    assert_eq!(server.stop(), Some(0));

    configure(&place, &format!("{file}[calls]\ndenies_held_for = [\"default\"]\n"));
    let server = place.serve();
    assert_eq!(state(&echo(&server, "yes")), "finished");
    let held = echo(&server, "no");
    assert_eq!(state(&held), "held", "{held}");
    assert!(held.to_string().contains("denial_held"), "{held}");
    let id = held["id"].as_str().expect("an id");
    let now = || server.ask("GET", &format!("/v1/calls/{id}"), None).json();
    // An approval is an input of the rules, and these do not look at it.
    let boss = server.client(&["key", "create", "boss", "--scope", "approve"]).worked();
    let approve = ["approve", id, "--yes", "--data", &server.data];
    ran(command(&approve).env("RINGFENCE_KEY", boss.stdout.trim()));
    until("the approval to be looked at", || now().to_string().contains("denies the call all"));
    assert_eq!(state(&now()), "held");
    let allowing = RULES.replace("\"deny\"", "\"allow\"");
    std::fs::write(folder.join("r.rego"), allowing).expect("rules");
    until("the call to run by the new rules", || state(&now()) == "finished");
}
