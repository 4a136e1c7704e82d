//! `ringfence calls`: lists calls, newest first.

use std::process::ExitCode;

use ringfence_types::Bytes;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use crate::{
    age,
    cli::CallsArgs,
    client::{
        Client, escaped, pretty,
        short_id::{Kind, ShortIds},
    },
    exit,
    failure::Failure,
    print,
    run::runtime,
    style::Tone,
    table::{Table, cut},
};

/// Calls per page of the server.
const PAGE: u32 = 200;

#[derive(Debug, Deserialize)]
struct Listed {
    calls: Vec<Box<RawValue>>,
    next_cursor: Option<String>,
}

/// The shown part of a call.
#[derive(Debug, Deserialize)]
struct Call {
    id: String,
    state: String,
    tool: String,
    accepted_at: String,
    error: Option<CallError>,
    timings: Option<Timings>,
    memoised: Option<IgnoredAny>,
    usage: Option<Usage>,
}

#[derive(Debug, Deserialize)]
struct Usage {
    cpu_user_ms: f64,
    cpu_system_ms: f64,
    memory_peak_bytes: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct CallError {
    code: String,
}

#[derive(Debug, Deserialize)]
struct Timings {
    duration_ms: f64,
}

pub(crate) fn calls(args: &CallsArgs) -> Result<ExitCode, Failure> {
    let listed = runtime()?.block_on(list(args));
    let listed = listed.map_err(|failure| failure.in_json(args.client.json))?;
    if args.client.json {
        listed.iter().for_each(|call| print::line(&pretty::compact(call.get())));
    } else if listed.is_empty() {
        print::note("no calls\n");
    } else {
        print::data(table(&listed)?.as_bytes());
    }
    Ok(ExitCode::from(exit::DONE))
}

/// Reads pages until the limit.
async fn list(args: &CallsArgs) -> Result<Vec<Box<RawValue>>, Failure> {
    let client = Client::find(&args.client)?;
    let parent = match &args.parent {
        Some(parent) => Some(client.whole_id(Kind::Call, parent).await?),
        None => None,
    };
    let mut calls = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let left = args.limit - u32::try_from(calls.len()).unwrap_or(args.limit).min(args.limit);
        let parameters = [
            ("state", args.state.clone()),
            ("tool", args.tool.clone()),
            ("session_id", args.session.clone()),
            ("parent", parent.clone()),
            ("cursor", cursor.take()),
            ("limit", Some(left.min(PAGE).to_string())),
        ];
        let listed: Listed = client.get(&format!("/v1/calls?{}", query(&parameters))).await?;
        calls.extend(listed.calls);
        cursor = listed.next_cursor;
        if cursor.is_none() || calls.len() >= args.limit as usize {
            return Ok(calls);
        }
    }
}

fn query(parameters: &[(&str, Option<String>)]) -> String {
    let given = parameters.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let pairs: Vec<_> = given.map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    pairs.join("&")
}

fn table(calls: &[Box<RawValue>]) -> Result<String, Failure> {
    let calls: Vec<Call> = calls
        .iter()
        .map(|call| serde_json::from_str(call.get()))
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::because("the server's answer is not understood", &error))?;
    let ids = ShortIds::of(&calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>());
    let mut table = Table::new(["CALL", "STATE", "TOOL", "WHEN", "TOOK", "CPU", "MEMORY"]);
    for call in calls {
        let note = match &call.error {
            Some(error) if error.code != call.state => Some(error.code.clone()),
            _ => call.memoised.map(|_| "memoised".to_owned()),
        };
        let took = call.timings.map_or("-".to_owned(), |t| format!("{:.1} ms", t.duration_ms));
        let tone = Tone::of_state(&call.state, call.error.is_some());
        let (id, tool) = (ids.show(&call.id), cut(&call.tool, 24));
        let usage = call.usage.as_ref();
        let cpu = usage.map_or("-".to_owned(), |usage| {
            format!("{:.0} ms", usage.cpu_user_ms + usage.cpu_system_ms)
        });
        let memory = usage.and_then(|usage| usage.memory_peak_bytes);
        let memory = memory.map_or("-".to_owned(), |bytes| Bytes(bytes).to_string());
        let when = age::ago(&call.accepted_at);
        table.toned_row([id, call.state, tool, when, took, cpu, memory], 1, tone);
        note.into_iter().for_each(|note| table.note(&note));
    }
    Ok(table.fitted())
}
