//! `ringfence logs`: prints the output of a call, byte for byte.

use std::process::ExitCode;

use reqwest::Method;
use ringfence_types::State;
use serde_json::Value;

use crate::{
    cli::LogsArgs,
    client::{Client, escaped, short_id::Kind},
    exit,
    failure::Failure,
    print,
    run::runtime,
};

/// A chunk of an output stream.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) bytes: Vec<u8>,
    /// Bytes before it that were dropped.
    pub(crate) skipped: u64,
    /// Offset of the next chunk.
    pub(crate) next: u64,
    /// Whether the stream ends here.
    pub(crate) is_end: bool,
}

/// Seconds to wait for more.
const POLL_SECS: u32 = 25;

pub(crate) fn logs(args: &LogsArgs) -> Result<ExitCode, Failure> {
    let told = runtime()?.block_on(follow(args));
    told.map_err(|failure| failure.in_json(args.client.json))?;
    Ok(ExitCode::from(exit::DONE))
}

async fn follow(args: &LogsArgs) -> Result<(), Failure> {
    let client = Client::find(&args.client)?;
    let id = client.whole_id(Kind::Call, &args.id).await?;
    let stream = if args.stderr { "stderr" } else { "stdout" };
    let mut offset = 0;
    loop {
        // Before the chunk: the output of an ended call is complete.
        let is_over = is_over(&client, &id).await?;
        let wait = if is_over || args.follow { POLL_SECS } else { 1 };
        let piece = piece(&client, &id, stream, offset, wait).await?;
        show(&piece, args.client.json);
        offset = piece.next;
        match (is_over, args.follow) {
            (true, _) if piece.is_end => return Ok(()),
            (false, false) if piece.bytes.is_empty() => return Ok(()),
            // It has not begun, or is between its end and its record.
            (false, true) if piece.is_end => pause().await,
            _ => {}
        }
    }
}

/// Pause between two polls, where no request can wait.
pub(crate) async fn pause() {
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
}

async fn is_over(client: &Client, id: &str) -> Result<bool, Failure> {
    let call: Value = client.get(&format!("/v1/calls/{}", escaped(id))).await?;
    let state = call["state"].as_str().unwrap_or_default();
    Ok(State::is_final_name(state))
}

fn show(piece: &Piece, is_json: bool) {
    if piece.skipped > 0 {
        print::note(&format!("warning: {} bytes were not kept\n", piece.skipped));
    }
    match is_json {
        false => print::data(&piece.bytes),
        true if piece.bytes.is_empty() => {}
        true => {
            let text = String::from_utf8_lossy(&piece.bytes);
            print::line(&serde_json::json!({"next": piece.next, "text": text}).to_string());
        }
    }
}

/// A chunk from an offset.
pub(crate) async fn piece(
    client: &Client,
    id: &str,
    stream: &str,
    offset: u64,
    wait: u32,
) -> Result<Piece, Failure> {
    let path = format!("/v1/calls/{}/output/{stream}?offset={offset}&wait={wait}", escaped(id));
    let response = client.send(client.request(Method::GET, &path)).await?;
    let header = |name: &str| response.headers().get(name)?.to_str().ok().map(str::to_owned);
    let number = |name: &str| header(name)?.parse::<u64>().ok();
    let began = number("output-offset").unwrap_or(offset);
    let next = number("output-next-offset");
    let is_end = header("output-end").as_deref() == Some("true");
    let bytes = response.bytes().await.map_err(|error| client.broken(&error))?.to_vec();
    let next = next.unwrap_or(began + bytes.len() as u64);
    Ok(Piece { bytes, skipped: began.saturating_sub(offset), next, is_end })
}
