//! `ringfence discover`: asks a server for a tool that is missing, and lists what was asked for.

use std::{fmt::Write, process::ExitCode};

use serde_json::{Value, json};

use crate::{
    cli::{ClientArgs, DiscoverArgs},
    client::{escaped, on_server},
    failure::Failure,
    print,
    style::Tone,
    table::{Table, cut, plain},
};

pub(crate) fn discover(args: &DiscoverArgs) -> Result<ExitCode, Failure> {
    match (&args.reject, args.words.is_empty()) {
        (Some(id), _) => on_server(&args.client, async |server| {
            let path = format!("/v1/discovery/{}/reject", escaped(id));
            let found = server.post(&path, &json!({"why": args.why})).await?;
            answer(&found, args.client.json);
            Ok(())
        }),
        (None, true) => on_server(&args.client, async |server| {
            let listed: Value = server.get("/v1/discovery?limit=50").await?;
            let found = listed["discoveries"].as_array().cloned().unwrap_or_default();
            match args.client.json {
                true => found.iter().for_each(|one| print::line(&one.to_string())),
                false if found.is_empty() => print::note("no discoveries\n"),
                false => print::data(table(&found).as_bytes()),
            }
            Ok(())
        }),
        (None, false) => {
            let mut body = json!({"capability": args.words.join(" ")});
            if let Some(propose) = args.propose {
                body["propose"] = json!(propose);
            }
            ask(&args.client, &body)
        }
    }
}

/// Asks for a capability and prints what was found.
pub(crate) fn ask(client: &ClientArgs, body: &Value) -> Result<ExitCode, Failure> {
    on_server(client, async |server| {
        let found = server.post("/v1/discovery", body).await?;
        answer(&found, client.json);
        Ok(())
    })
}

fn answer(found: &Value, is_json: bool) {
    match is_json {
        true => print::line(&found.to_string()),
        false => print::data(shown(found).as_bytes()),
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or("-")
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

fn table(found: &[Value]) -> String {
    let mut table = Table::new(["ID", "STATUS", "PROPOSED", "CAPABILITY"]);
    for one in found {
        let proposed = list(one, "candidates").flat_map(|document| list(document, "proposed"));
        let row = [
            text(one, "id").to_owned(),
            text(one, "status").to_owned(),
            proposed.count().to_string(),
            cut(text(one, "capability"), 60),
        ];
        table.toned_row(row, 1, tone(text(one, "status")));
    }
    table.fitted()
}

fn tone(status: &str) -> Tone {
    match status {
        "found" => Tone::Good,
        "failed" | "rejected" => Tone::Bad,
        _ => Tone::Waiting,
    }
}

fn shown(found: &Value) -> String {
    let mut out = format!("{}  {}\n", text(found, "id"), text(found, "status"));
    for tool in list(found, "tools") {
        let about = plain(text(tool, "description"));
        let _ = writeln!(out, "can be called: {}  {about}", plain(text(tool, "name")));
    }
    for document in list(found, "candidates") {
        let (name, place) = (plain(text(document, "name")), plain(text(document, "directory")));
        let _ = writeln!(out, "{} {name} of {place}", text(document, "kind"));
        if let Some(problem) = document["problem"].as_str() {
            let _ = writeln!(out, "  not proposed: {}", plain(problem));
        }
        for tool in list(document, "proposed") {
            let (name, version) = (plain(text(tool, "name")), plain(text(tool, "version")));
            let _ = writeln!(out, "  {}: {name} {version}", text(tool, "status"));
        }
    }
    for problem in list(found, "problems") {
        let place = plain(text(problem, "directory"));
        let _ = writeln!(out, "not searched: {place}: {}", plain(text(problem, "problem")));
    }
    let is_empty = |name: &str| list(found, name).next().is_none();
    if let Some(error) = found["error"].as_str() {
        let _ = writeln!(out, "failed: {}", plain(error));
    } else if text(found, "status") == "failed" && is_empty("tools") && is_empty("candidates") {
        out.push_str(
            "nothing fits, neither in the catalogue nor in the directories of the setting \
             `discovery.directories`\n",
        );
    }
    out
}
