//! `ringfence replay`: repeats a call and compares the results.
//!
//! The call is made again, through policy and on record like any other, with the recorded arguments
//! and exactly the recorded tool. The digests on the two receipts are compared.

use std::process::ExitCode;

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use crate::{
    cli::ReplayArgs,
    client::{Client, escaped, short_id::Kind},
    exit,
    failure::Failure,
    print,
    run::runtime,
};

/// The part of a call that is needed to repeat it.
#[derive(Debug, Deserialize)]
struct Call {
    id: String,
    state: String,
    tool: String,
    version: String,
    digest: String,
    args: Box<RawValue>,
}

/// Body of the request.
#[derive(Debug, Serialize)]
struct Request<'a> {
    tool: &'a str,
    version: &'a str,
    args: &'a RawValue,
    metadata: Value,
    wait: u32,
    /// Always true: a remembered result would prove nothing.
    fresh: bool,
}

/// Seconds to wait for the end of the second call.
const WAIT_SECS: u32 = 300;

pub(crate) fn replay(args: &ReplayArgs) -> Result<ExitCode, Failure> {
    let is_json = args.client.json;
    let code = runtime()?.block_on(carry_out(args));
    code.map(ExitCode::from).map_err(|failure| failure.in_json(is_json))
}

async fn carry_out(args: &ReplayArgs) -> Result<u8, Failure> {
    let client = Client::find(&args.client)?;
    let id = client.whole_id(Kind::Call, &args.id).await?;
    let first: Call = client.get(&format!("/v1/calls/{}", escaped(&id))).await?;
    let receipt = receipt(&client, &first).await?;
    let before = result(&receipt);
    let before = before
        .ok_or_else(|| impossible(format!("the call is {}, without a result", first.state)))?;
    if is_masked(&receipt) {
        return Err(impossible("policy had some of its arguments masked, so they are not stored"));
    }
    check_tool(&client, &first).await?;
    let second = again(&client, &first).await?;
    let after = result(&self::receipt(&client, &second).await?);
    let is_equal = after.as_ref() == Some(&before);
    tell(&first, &second, (&before, after.as_deref()), args.client.json);
    Ok(if is_equal { exit::DONE } else { exit::FAILED })
}

fn impossible(why: impl Into<String>) -> Failure {
    Failure::listing("the call cannot be made again", vec![why.into()])
}

async fn receipt(client: &Client, call: &Call) -> Result<Value, Failure> {
    if ["accepted", "held", "dispatched", "running", "cancelling"].contains(&call.state.as_str()) {
        return Err(impossible(format!("the call is {}, and has not ended", call.state)));
    }
    client.get(&format!("/v1/calls/{}/receipt", escaped(&call.id))).await
}

/// Digest of the result on a receipt.
fn result(receipt: &Value) -> Option<String> {
    receipt["result"].as_str().map(str::to_owned)
}

/// Whether the recorded arguments are masked.
fn is_masked(receipt: &Value) -> bool {
    let masked = receipt["decision"]["obligations"]["redact"].as_array().into_iter().flatten();
    masked.filter_map(Value::as_str).any(|pointer| pointer.starts_with("/args"))
}

/// Checks that the tool is unchanged and pure.
async fn check_tool(client: &Client, call: &Call) -> Result<(), Failure> {
    let path = format!("/v1/tools/{}?version={}", escaped(&call.tool), escaped(&call.version));
    let tool: Value = client.get(&path).await?;
    if tool["digest"].as_str() != Some(call.digest.as_str()) {
        let why = format!("`{}` {} is another tool now than it was", call.tool, call.version);
        return Err(impossible(why));
    }
    match tool["pure"].as_bool() {
        Some(true) => Ok(()),
        _ => Err(impossible(format!("`{}` has effects outside its sandbox", call.tool))),
    }
}

async fn again(client: &Client, call: &Call) -> Result<Call, Failure> {
    let request = Request {
        tool: &call.tool,
        version: &call.version,
        args: &call.args,
        metadata: json!({ "replay_of": call.id }),
        wait: WAIT_SECS,
        fresh: true,
    };
    let body = serde_json::to_string(&request)
        .map_err(|error| Failure::because("cannot write the request", &error))?;
    let request = client.request(Method::POST, "/v1/calls");
    let request = request.header("content-type", "application/json").body(body);
    let text = client.text(client.send(request).await?).await?;
    let made: Call = serde_json::from_str(&text)
        .map_err(|error| Failure::because("the server's answer is not understood", &error))?;
    match made.state.as_str() {
        "finished" if made.digest == call.digest => Ok(made),
        "finished" => Err(impossible("the tool was changed in between")),
        state => Err(impossible(format!("call {} is {state}", made.id))),
    }
}

fn tell(first: &Call, second: &Call, (before, after): (&str, Option<&str>), is_json: bool) {
    let is_equal = after == Some(before);
    let word = if is_equal { "equal" } else { "different" };
    if is_json {
        let object = json!({
            "outcome": word, "call": first.id, "replay": second.id, "result": before,
            "replay_result": after,
        });
        return print::line(&object.to_string());
    }
    let after = after.unwrap_or("no result");
    print::line(&format!("{word}\ncall    {}  {before}\nreplay  {}  {after}", first.id, second.id));
}
