//! `ringfence export`: writes the proof of a call or a session to a file.

use std::{fs, process::ExitCode};

use reqwest::Method;

use crate::{
    cli::ExportArgs,
    client::{Client, call_or_session, escaped},
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

async fn fetch(args: &ExportArgs) -> Result<String, Failure> {
    let client = Client::find(&args.client)?;
    let call = if args.session { None } else { call_or_session(&client, &args.id).await? };
    let (place, id) = match &call {
        Some(call) => ("calls", call),
        None => ("sessions", &args.id),
    };
    let path = format!("/v1/{place}/{}/proof?artifacts={}", escaped(id), args.artifacts);
    let response = client.send(client.request(Method::GET, &path)).await?;
    client.text(response).await
}
