//! `ringfence export`: one file that proves a call or a session.

use std::{fs, process::ExitCode};

use reqwest::Method;
use ringfence_types::CallId;

use crate::{
    cli::ExportArgs,
    client::{Client, escaped},
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
    let is_call = !args.session && args.id.parse::<CallId>().is_ok();
    let place = if is_call { "calls" } else { "sessions" };
    let path = format!("/v1/{place}/{}/proof?artifacts={}", escaped(&args.id), args.artifacts);
    let response = client.send(client.request(Method::GET, &path)).await?;
    client.text(response).await
}
