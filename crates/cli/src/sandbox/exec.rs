//! `ringfence sandbox exec`: one program in a session sandbox, with live output and its exit code.

use std::{io::Write as _, process::ExitCode};

use reqwest::Method;
use ringfence_types::parse_duration;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use super::{place, variables};
use crate::{
    base64,
    cli::SandboxExecArgs,
    client::{Client, sse::Events},
    exit,
    failure::Failure,
    print,
    problems::Problems,
    run::runtime,
    signals::Signals,
    table::plain,
};

/// Bytes of standard input per request.
const INPUT_BYTES: usize = 64 << 10;

/// Seconds that one request waits for the end.
const POLL_SECS: u32 = 25;

pub(super) fn exec(args: &SandboxExecArgs) -> Result<ExitCode, Failure> {
    let is_json = args.client.json;
    let runtime = runtime()?;
    let code = runtime.block_on(carry_out(args));
    // A thread may be stuck reading our standard input.
    runtime.shutdown_background();
    code.map(ExitCode::from).map_err(|failure| failure.in_json(is_json))
}

async fn carry_out(args: &SandboxExecArgs) -> Result<u8, Failure> {
    let body = request(args)?;
    let watched = |error| Failure::because("cannot watch for signals", &error);
    let mut signals = Signals::watch().map_err(watched)?;
    let client = Client::find(&args.client)?;
    let place = place(&client, &args.id).await?;
    let started = client.post(&format!("{place}/exec"), &body).await?;
    let program = format!("{place}/exec/{}", started["id"]);
    let followed = async {
        match args.client.json {
            true => whole(&client, &program).await,
            false => relayed(&client, &program).await,
        }
    };
    let fed = async {
        if args.stdin {
            feed(&client, &program).await?;
        }
        std::future::pending::<Result<u8, Failure>>().await
    };
    tokio::select! {
        ended = followed => ended,
        failed = fed => failed,
        signal = signals.first() => {
            client.send(client.request(Method::DELETE, &program)).await?;
            Ok(exit::of_signal(signal))
        }
    }
}

fn request(args: &SandboxExecArgs) -> Result<Value, Failure> {
    let mut problems = Problems::default();
    let mut timeout = None;
    problems.set_some(&mut timeout, "--timeout", &args.timeout, parse_duration);
    let env = variables(&args.env, &mut problems);
    problems.none()?;
    let mut body = json!({"argv": args.command, "env": env, "wait": 0});
    if let Some(timeout) = timeout {
        body["timeout_secs"] = json!(timeout.as_secs_f64());
    }
    if let Some(cwd) = &args.cwd {
        body["cwd"] = json!(cwd);
    }
    if args.stdin {
        body["stdin"] = json!({"open": true});
    }
    Ok(body)
}

/// Waits for the end and prints the program as the server returns it.
async fn whole(client: &Client, program: &str) -> Result<u8, Failure> {
    loop {
        let shown: Value = client.get(&format!("{program}?wait={POLL_SECS}")).await?;
        if shown["state"] != "running" {
            print::line(&shown.to_string());
            return Ok(code(&shown));
        }
    }
}

/// Prints the program's output as it comes.
async fn relayed(client: &Client, program: &str) -> Result<u8, Failure> {
    let request = client.request(Method::GET, &format!("{program}/events"));
    let mut events = Events::new(client, client.send(request).await?);
    while let Some(event) = events.next().await? {
        let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
        match event.kind.as_str() {
            "stdout" => print::data(&written(&data)),
            // A reader that closed it does not want it.
            "stderr" => drop(std::io::stderr().lock().write_all(&written(&data))),
            "gap" => print::note(&format!(
                "\nwarning: {} bytes of {} were not kept\n",
                data["resume"].as_u64().unwrap_or(0) - data["offset"].as_u64().unwrap_or(0),
                plain(data["stream"].as_str().unwrap_or_default()),
            )),
            "exit" => return Ok(told(&data)),
            "lost" => {
                let detail = plain(data["detail"].as_str().unwrap_or_default());
                return Err(Failure::listing("the sandbox ended before the program", vec![detail]));
            }
            _ => {}
        }
    }
    Err(Failure::new("the server ended the events before the program"))
}

fn written(data: &Value) -> Vec<u8> {
    match (data["text"].as_str(), data["base64"].as_str()) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some(coded)) => base64::decode(coded).unwrap_or_default(),
        (None, None) => Vec::new(),
    }
}

/// The exit code, with a message about a limit that was reached.
fn told(end: &Value) -> u8 {
    if end["timed_out"] == true {
        print::note("error: the program reached its time limit\nhint: give more with --timeout\n");
    } else if let Some(hint) = end["outcome"]["hint"].as_str() {
        print::note(&format!("hint: {}\n", plain(hint)));
    }
    code(end)
}

fn code(end: &Value) -> u8 {
    match (end["timed_out"].as_bool(), end["exit_code"].as_i64(), end["signal"].as_i64()) {
        (Some(true), ..) => exit::TIMED_OUT,
        (_, Some(code), _) => (code & 0xff) as u8,
        (_, None, Some(signal)) => exit::of_signal((signal & 0x7f) as i32),
        (_, None, None) => exit::OURS,
    }
}

/// Sends our standard input to the program until it ends.
async fn feed(client: &Client, program: &str) -> Result<(), Failure> {
    let (mut input, mut buffer) = (tokio::io::stdin(), vec![0; INPUT_BYTES]);
    loop {
        let read = input.read(&mut buffer).await;
        let count = read.map_err(|error| Failure::because("read standard input", &error))?;
        let path = format!("{program}/stdin?end={}", count == 0);
        let request = client.request(Method::POST, &path);
        let request = request.header("content-type", "application/octet-stream");
        let sent = client.send(request.body(buffer[..count].to_vec())).await;
        // A program that has ended or closed its input reads no more; its end is reported
        // elsewhere.
        if sent.is_err() || count == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_that_of_the_program() {
        for (end, expected) in [
            (json!({"exit_code": 7, "signal": null, "timed_out": false}), 7),
            (json!({"exit_code": null, "signal": 15, "timed_out": false}), 143),
            (json!({"exit_code": null, "signal": 9, "timed_out": true}), 124),
            (json!({}), 2),
        ] {
            assert_eq!(code(&end), expected, "{end}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_arrive_as_they_are() {
        assert_eq!(written(&json!({"base64": "Yf8="})), b"a\xff");
        assert_eq!(written(&json!({"text": "ü"})), "ü".as_bytes());
    }
}
