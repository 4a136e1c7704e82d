//! `ringfence audit`: lists entries of the ledger.

use std::process::ExitCode;

use reqwest::Method;
use ringfence_types::{Clock as _, Timestamp, parse_duration};
use serde_json::Value;

use super::entry_summary::summary;
use crate::{
    cli::AuditArgs,
    client::{Client, escaped, pretty, short_id::Kind},
    exit,
    failure::Failure,
    print,
    run::runtime,
    serve::SystemClock,
    table::Table,
};

pub(crate) fn audit(args: &AuditArgs) -> Result<ExitCode, Failure> {
    let text = runtime()?.block_on(fetch(args));
    let text = text.map_err(|failure| failure.in_json(args.client.json))?;
    if args.client.json {
        text.lines().for_each(|line| print::line(&pretty::compact(line)));
    } else if text.is_empty() {
        print::note("no entries\n");
    } else {
        print::data(table(&text).as_bytes());
    }
    Ok(ExitCode::from(exit::DONE))
}

async fn fetch(args: &AuditArgs) -> Result<String, Failure> {
    let client = Client::find(&args.client)?;
    let call = match &args.call {
        Some(id) => Some(client.whole_id(Kind::Call, id).await?),
        None => None,
    };
    let filters = [
        ("kind", args.kind.clone()),
        ("tool", args.tool.clone()),
        ("call_id", call),
        ("session_id", args.session.clone()),
        ("persona_id", args.persona.clone()),
        ("since", args.since.as_deref().map(|text| instant("--since", text)).transpose()?),
        ("until", args.until.as_deref().map(|text| instant("--until", text)).transpose()?),
    ];
    let filters = filters.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let filters: Vec<_> =
        filters.map(|(name, value)| format!("{name}={}", escaped(&value))).collect();
    let request = client.request(Method::GET, &format!("/v1/audit?{}", filters.join("&")));
    let response = client.send(request.header("accept", "application/x-ndjson")).await?;
    client.text(response).await
}

/// An instant, or a duration before now.
fn instant(flag: &str, text: &str) -> Result<String, Failure> {
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(instant.to_string());
    }
    let ago = parse_duration(text).map_err(|_| {
        Failure::new(format!("{flag}: `{text}` is neither 7d nor 2027-01-01T00:00:00Z"))
    })?;
    let micros = i64::try_from(ago.as_micros()).unwrap_or(i64::MAX);
    let then = SystemClock.now().as_micros().saturating_sub(micros);
    Ok(Timestamp::from_micros(then).to_string())
}

/// An instant without its fraction of a second.
fn seconds(instant: &str) -> String {
    match instant.split_once('.') {
        Some((whole, _)) => format!("{whole}Z"),
        None => instant.to_owned(),
    }
}

fn table(text: &str) -> String {
    let mut table = Table::new(["INDEX", "AT", "KIND", "WHAT"]);
    for entry in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let text = |name: &str| entry[name].as_str().unwrap_or("-").to_owned();
        let said = summary(&text("kind"), &entry["statement"]["predicate"]);
        let tool = entry["tool"].as_str().map_or(String::new(), |tool| format!("{tool} "));
        let index = entry["index"].to_string();
        table.row([index, seconds(&text("at")), text("kind"), format!("{tool}{said}")]);
        if let Some(call) = entry["call_id"].as_str() {
            table.note(&format!("call {call}"));
        }
    }
    table.fitted()
}
