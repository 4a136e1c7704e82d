//! `ringfence show`: shows everything about one call.

mod call_text;

use std::process::ExitCode;

use reqwest::Method;
use ringfence_types::State;
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use crate::{
    cli::ShowArgs,
    client::{Client, escaped, short_id::Kind, sse::Events},
    exit,
    failure::Failure,
    print,
    run::runtime,
};

/// A call, its events and its receipt, each as the server returns it.
#[derive(Debug, Serialize)]
struct Shown {
    call: Box<RawValue>,
    /// Events of an ended call; empty before.
    events: Vec<Box<RawValue>>,
    /// Receipt of an ended call.
    receipt: Option<Box<RawValue>>,
}

pub(crate) fn show(args: &ShowArgs) -> Result<ExitCode, Failure> {
    let is_json = args.client.json;
    let shown = runtime()?.block_on(async {
        let client = Client::find(&args.client)?;
        let id = client.whole_id(Kind::Call, &args.id).await?;
        fetch(&client, &id).await
    });
    let shown = shown.map_err(|failure| failure.in_json(is_json))?;
    if is_json {
        let text = serde_json::to_string(&shown)
            .map_err(|error| Failure::because("cannot write the object", &error))?;
        print::line(&text);
    } else {
        print::data(call_text::of(&shown).as_bytes());
    }
    Ok(ExitCode::from(exit::DONE))
}

async fn fetch(client: &Client, id: &str) -> Result<Shown, Failure> {
    let path = format!("/v1/calls/{}", escaped(id));
    let call: Box<RawValue> = client.get(&path).await?;
    let state = value(&call)["state"].as_str().unwrap_or_default().to_owned();
    // The event stream of a running call ends with the call, and a receipt comes with its end.
    if !State::is_final_name(&state) {
        return Ok(Shown { call, events: Vec::new(), receipt: None });
    }
    let receipt = client.get(&format!("{path}/receipt")).await?;
    let events = events(client, &path).await?;
    Ok(Shown { call, events, receipt: Some(receipt) })
}

async fn events(client: &Client, path: &str) -> Result<Vec<Box<RawValue>>, Failure> {
    let request = client.request(Method::GET, &format!("{path}/events"));
    let mut events = Events::new(client, client.send(request).await?);
    let mut all = Vec::new();
    while let Some(event) = events.next().await? {
        let data = RawValue::from_string(event.data)
            .map_err(|error| Failure::because("the server's answer is not understood", &error))?;
        all.push(data);
    }
    Ok(all)
}

/// Parsed for reading; the raw text is what is printed.
fn value(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap_or_default()
}
