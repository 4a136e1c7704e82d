//! `ringfence export`: writes the proof of a call or a session to a file.

use std::{fs, process::ExitCode};

use reqwest::Method;
use ringfence_types::CallId;

use crate::{
    cli::ExportArgs,
    client::{
        Client, escaped,
        short_id::{Kind, is_short},
    },
    exit,
    failure::Failure,
    print,
    run::runtime,
};

pub(crate) fn export(args: &ExportArgs) -> Result<ExitCode, Failure> {
    let text = runtime()?.block_on(fetch(args));
    let text = text.map_err(|failure| failure.in_json(args.client.json))?;
    match &args.output {
        None => print::data(text.as_bytes()),
        Some(path) => {
            let failed =
                |error| Failure::because(format!("cannot write `{}`", path.display()), &error);
            fs::write(path, &text).map_err(failed)?;
            print::note(&format!("hint: ringfence verify {}\n", path.display()));
        }
    }
    Ok(ExitCode::from(exit::DONE))
}

/// The call with this id or id suffix; none if it must be a session.
async fn call(client: &Client, id: &str) -> Result<Option<String>, Failure> {
    if id.parse::<CallId>().is_ok() {
        return Ok(Some(id.to_owned()));
    }
    if !is_short(id) || client.ending_with(Kind::Call, id).await?.is_empty() {
        return Ok(None);
    }
    client.whole_id(Kind::Call, id).await.map(Some)
}

async fn fetch(args: &ExportArgs) -> Result<String, Failure> {
    let client = Client::find(&args.client)?;
    let call = if args.session { None } else { call(&client, &args.id).await? };
    let (place, id) = match &call {
        Some(call) => ("calls", call),
        None => ("sessions", &args.id),
    };
    let path = format!("/v1/{place}/{}/proof?artifacts={}", escaped(id), args.artifacts);
    let response = client.send(client.request(Method::GET, &path)).await?;
    client.text(response).await
}
