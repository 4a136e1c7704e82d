//! `ringfence call`: makes one call and follows it to its result.

pub(crate) mod arguments;
mod ending;
mod relay;

use std::{
    io::{IsTerminal, stdin, stdout},
    process::ExitCode,
};

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub(crate) use self::ending::is_still;
use self::{arguments::Arguments, ending::Ended};
use crate::{
    cancel,
    cli::CallArgs,
    client::{Client, escaped, pretty},
    exit,
    failure::Failure,
    print,
    run::runtime,
    signals::Signals,
};

/// Body of the request.
#[derive(Debug, Serialize)]
struct Request<'a> {
    tool: &'a str,
    args: Box<RawValue>,
    /// Zero: the call is followed by its events.
    wait: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    persona_id: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    fresh: bool,
}

/// Part of an accepted call that is needed to follow it.
#[derive(Debug, Deserialize)]
struct Accepted {
    id: String,
    state: String,
}

pub(crate) fn call(args: CallArgs) -> Result<ExitCode, Failure> {
    let is_json = args.client.json;
    let code = runtime()?.block_on(carry_out(&args));
    code.map(ExitCode::from).map_err(|failure| failure.in_json(is_json))
}

async fn carry_out(args: &CallArgs) -> Result<u8, Failure> {
    let client = Client::find(&args.client)?;
    let arguments = Arguments::read(args, stdin())?;
    let text = make(&client, args, arguments).await?;
    let accepted: Accepted = serde_json::from_str(&text)
        .map_err(|error| Failure::because("the server's answer is not understood", &error))?;
    if args.no_wait {
        match args.client.json {
            true => print::line(&pretty::compact(&text)),
            false => print::line(&accepted.id),
        }
        return Ok(exit::DONE);
    }
    let text = match ending::is_still(&accepted.state) {
        true => text,
        false => follow(&client, args, &accepted.id).await?,
    };
    tell(&text, args.client.json, args.quiet)
}

async fn make(client: &Client, args: &CallArgs, arguments: Arguments) -> Result<String, Failure> {
    let args_json = arguments.typed(client, &args.tool, args.tool_version.as_deref()).await?;
    let body = Request {
        tool: &args.tool,
        args: args_json,
        wait: 0.0,
        version: args.tool_version.as_deref(),
        session_id: args.session.as_deref(),
        persona_id: args.persona.as_deref(),
        fresh: args.fresh,
    };
    let body = serde_json::to_string(&body)
        .map_err(|error| Failure::because("cannot write the request", &error))?;
    let request = client.request(Method::POST, "/v1/calls");
    let mut request = request.header("content-type", "application/json").body(body);
    if let Some(key) = &args.idempotency_key {
        let quoted = key.replace('\\', "\\\\").replace('"', "\\\"");
        request = request.header("idempotency-key", format!("\"{quoted}\""));
    }
    let response = client.send(request).await?;
    client.text(response).await
}

/// Follows the call until it has ended or is held; a signal cancels it first.
async fn follow(client: &Client, args: &CallArgs, id: &str) -> Result<String, Failure> {
    let watched = |error| Failure::because("cannot watch for signals", &error);
    let mut signals = Signals::watch().map_err(watched)?;
    let followed = relay::follow(client, id, args.quiet);
    tokio::pin!(followed);
    let signal = tokio::select! {
        done = &mut followed => {
            done?;
            None
        }
        signal = signals.first() => Some(signal),
    };
    if let Some(signal) = signal {
        cancel::end(client, id).await?;
        tokio::select! {
            done = &mut followed => done?,
            _ = signals.first() => {}
        }
        return Err(Failure::new(format!("call {id} was cancelled")).code(exit::of_signal(signal)));
    }
    let response =
        client.send(client.request(Method::GET, &format!("/v1/calls/{}", escaped(id)))).await?;
    client.text(response).await
}

/// Prints a call that has ended or is held, and returns the exit code. The traceback is left out if
/// standard error has it already.
pub(crate) fn tell(text: &str, is_json: bool, with_traceback: bool) -> Result<u8, Failure> {
    let ended = Ended::read(text)?;
    if is_json {
        print::line(&pretty::compact(text));
    } else if let Some(result) = ended.result() {
        match stdout().is_terminal() {
            true => print::line(&pretty::pretty(result)),
            false => print::line(&pretty::compact(result)),
        }
    }
    print::note(&ended.words(with_traceback));
    Ok(ended.code())
}
