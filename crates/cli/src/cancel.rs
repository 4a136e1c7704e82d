//! `ringfence cancel`: cancels a call.

use std::process::ExitCode;

use reqwest::Method;
use serde_json::Value;

use crate::{
    cli::CancelArgs,
    client::{Client, escaped, pretty, short_id::Kind},
    exit,
    failure::Failure,
    print,
    run::runtime,
    table::plain,
};

pub(crate) fn cancel(args: &CancelArgs) -> Result<ExitCode, Failure> {
    let answer = runtime()?.block_on(async {
        let client = Client::find(&args.client)?;
        let id = client.whole_id(Kind::Call, &args.id).await?;
        end(&client, &id).await
    });
    let answer = answer.map_err(|failure| failure.in_json(args.client.json))?;
    if args.client.json {
        print::line(&pretty::compact(&answer));
    } else {
        let call: Value = serde_json::from_str(&answer).unwrap_or_default();
        let state = call["state"].as_str().unwrap_or("unknown");
        print::note(&format!("{} is {}\n", plain(&args.id), plain(state)));
    }
    Ok(ExitCode::from(exit::DONE))
}

/// Cancels a call and returns its state.
pub(crate) async fn end(client: &Client, id: &str) -> Result<String, Failure> {
    let request = client.request(Method::DELETE, &format!("/v1/calls/{}", escaped(id)));
    let response = client.send(request).await?;
    client.text(response).await
}
