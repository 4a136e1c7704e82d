//! `ringfence erase` and `ringfence prune`: erase records; the ledger stays.

use std::process::ExitCode;

use ringfence_types::parse_duration;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    cli::{EraseArgs, PruneArgs},
    client::{Client, call_or_session, escaped, on_server},
    failure::Failure,
    print,
};

/// Numbers of records.
#[derive(Debug, Default, Deserialize)]
struct Records {
    calls: u64,
    events: u64,
    decisions: u64,
    blobs: u64,
    blob_bytes: u64,
}

/// Retention of a server, and records of a certain age.
#[derive(Debug, Deserialize)]
struct Retention {
    before: Option<String>,
    expired: Option<Records>,
}

pub(crate) fn erase(args: &EraseArgs) -> Result<ExitCode, Failure> {
    on_server(&args.client, async |client| {
        let call = if args.session { None } else { call_or_session(client, &args.id).await? };
        let (place, id) = match &call {
            Some(call) => ("calls", call),
            None => ("sessions", &args.id),
        };
        let body = match &args.reason {
            Some(reason) => json!({ "reason": reason }),
            None => json!({}),
        };
        let erased = client.post(&format!("/v1/{place}/{}/erase", escaped(id)), &body).await?;
        tell("erased", &erased, args.client.json)
    })
}

pub(crate) fn prune(args: &PruneArgs) -> Result<ExitCode, Failure> {
    on_server(&args.client, async |client| {
        let age = args.older_than.as_deref().map(parse_duration).transpose();
        let age = age.map_err(|problem| Failure::new(format!("--older-than: {problem}")))?;
        let age = age.map(|age| age.as_secs());
        match args.dry_run {
            true => count(client, age, args.client.json).await,
            false => {
                let body = age.map_or_else(|| json!({}), |age| json!({ "older_than": age }));
                let erased = client.post("/v1/retention/prune", &body).await?;
                tell("erased", &erased, args.client.json)
            }
        }
    })
}

/// Tells how many records a pass would erase.
async fn count(client: &Client, age: Option<u64>, is_json: bool) -> Result<(), Failure> {
    let query = age.map_or(String::new(), |age| format!("?older_than={age}"));
    let found: Value = client.get(&format!("/v1/retention{query}")).await?;
    if is_json {
        print::line(&found.to_string());
        return Ok(());
    }
    let Retention { before, expired } = read(&found)?;
    let (Some(before), Some(expired)) = (before, expired) else {
        return Err(Failure::new("the server keeps records for ever")
            .hint("name an age: ringfence prune --dry-run --older-than 90d"));
    };
    print::line(&format!("before {before}: {}", words(&expired)));
    Ok(())
}

fn read<'a, T: Deserialize<'a>>(answer: &'a Value) -> Result<T, Failure> {
    T::deserialize(answer)
        .map_err(|error| Failure::because("the server's answer is not understood", &error))
}

fn tell(done: &str, erased: &Value, is_json: bool) -> Result<(), Failure> {
    match is_json {
        true => print::line(&erased.to_string()),
        false => print::line(&format!("{done} {}", words(&read(erased)?))),
    }
    Ok(())
}

fn words(records: &Records) -> String {
    let Records { calls, events, decisions, blobs, blob_bytes } = records;
    format!(
        "the records of {calls} calls, {events} session events, {decisions} other decisions, \
         {blobs} blobs ({blob_bytes} bytes)"
    )
}
