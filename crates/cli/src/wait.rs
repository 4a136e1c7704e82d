//! `ringfence wait`: waits for the end of a call.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use ringfence_types::parse_duration;
use serde_json::{Value, value::RawValue};

use crate::{
    call,
    cli::WaitArgs,
    client::{Client, escaped, short_id::Kind},
    exit,
    failure::Failure,
    logs::pause,
    run::runtime,
};

/// Seconds that one request waits for the end.
const POLL_SECS: u64 = 25;

pub(crate) fn wait(args: &WaitArgs) -> Result<ExitCode, Failure> {
    let is_json = args.client.json;
    let code = runtime()?.block_on(async {
        let timeout = args.timeout.as_deref().map(timeout).transpose()?;
        let client = Client::find(&args.client)?;
        let id = client.whole_id(Kind::Call, &args.id).await?;
        let text = end(&client, &id, timeout).await?;
        call::tell(&text, is_json, true)
    });
    code.map(ExitCode::from).map_err(|failure| failure.in_json(is_json))
}

fn timeout(text: &str) -> Result<Duration, Failure> {
    parse_duration(text).map_err(|invalid| Failure::because("--timeout", &invalid))
}

/// The call once it has ended or is held.
async fn end(client: &Client, id: &str, timeout: Option<Duration>) -> Result<String, Failure> {
    let began = Instant::now();
    loop {
        let left = timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
        let secs = left.map_or(POLL_SECS, |left| left.as_secs().min(POLL_SECS));
        let path = format!("/v1/calls/{}?wait={secs}", escaped(id));
        let text: Box<RawValue> = client.get(&path).await?;
        let call: Value = serde_json::from_str(text.get()).unwrap_or_default();
        let state = call["state"].as_str().unwrap_or_default();
        if call::is_still(state) {
            return Ok(text.get().to_owned());
        }
        if left.is_some_and(|left| left.is_zero()) {
            let message = format!("call {id} is still {state}");
            let hint = format!("it goes on; end it with: ringfence cancel {id}");
            return Err(Failure::new(message).hint(hint).code(exit::TIMED_OUT));
        }
        // Less than a second is left, or the call is about to start.
        pause().await;
    }
}
