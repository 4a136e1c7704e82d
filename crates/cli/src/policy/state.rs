//! State of the policy engines and canaries.

use serde_json::Value;

use crate::{
    cli::ClientArgs,
    client::Client,
    failure::Failure,
    print,
    table::{Table, plain},
};

pub(super) async fn status(args: &ClientArgs) -> Result<(), Failure> {
    let status: Value = Client::find(args)?.get("/v1/policy/status").await?;
    show(&status, args.json, show_status);
    Ok(())
}

pub(super) async fn canary(args: &ClientArgs) -> Result<(), Failure> {
    let found: Value = Client::find(args)?.get("/v1/policy/canary").await?;
    show(&found, args.json, show_canaries);
    Ok(())
}

fn show(value: &Value, is_json: bool, words: impl Fn(&Value)) {
    match is_json {
        true => print::line(&value.to_string()),
        false => words(value),
    }
}

fn show_status(status: &Value) {
    let mut table = Table::new(["ENGINE", "STATE", "REVISION"]);
    for engine in list(status, "engines") {
        table.row([text(engine, "engine"), text(engine, "state"), text(engine, "revision")]);
    }
    print::data(table.text().as_bytes());
    for engine in list(status, "engines") {
        for problem in list(engine, "problems").iter().filter_map(Value::as_str) {
            print::note(&format!("{}: {}\n", text(engine, "engine"), plain(problem)));
        }
    }
    for tenant in list(status, "fail_open").iter().filter_map(Value::as_str) {
        print::note(&format!("calls of tenant {tenant} RUN while policy gives no answer\n"));
    }
}

fn show_canaries(found: &Value) {
    if list(found, "canaries").is_empty() {
        return print::note("no policy is tried\n");
    }
    show_counts(found);
    show_differences(found);
}

fn show_counts(found: &Value) {
    let mut table =
        Table::new(["CANARY", "SAME", "DIFFERENT", "NO ANSWER", "LEFT OUT", "REVISION"]);
    for canary in list(found, "canaries") {
        let count = |name: &str| canary["counts"][name].to_string();
        table.row([
            text(canary, "name"),
            count("same"),
            count("different"),
            count("unavailable"),
            count("left_out"),
            text(canary, "revision"),
        ]);
    }
    print::data(table.text().as_bytes());
}

fn show_differences(found: &Value) {
    let is_none = |canary: &Value| list(canary, "differences").is_empty();
    if list(found, "canaries").iter().all(is_none) {
        return print::note("no differences\n");
    }
    let mut table =
        Table::new(["WHEN", "CANARY", "CALL", "TENANT", "TOOL", "IN FORCE", "TRIED", "WHY"]);
    for canary in list(found, "canaries") {
        for difference in list(canary, "differences") {
            let tried = &difference["candidate"];
            table.row([
                text(difference, "at"),
                text(canary, "name"),
                text(difference, "call_id"),
                text(difference, "tenant"),
                text(difference, "tool"),
                text(&difference["enforced"], "verdict"),
                text(tried, "verdict"),
                plain(tried["reasons"][0]["message"].as_str().unwrap_or("-")),
            ]);
        }
    }
    print::data(table.text().as_bytes());
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or("-").to_owned()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}
