//! `ringfence policy case`: a stored decision as a Rego test.

use std::{fs::OpenOptions, io::Write, path::Path, process::ExitCode};

use ringfence_policy::test_case;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    cli::ClientArgs,
    client::{Client, escaped, short_id::Kind},
    exit,
    failure::Failure,
    print,
};

#[derive(Debug, Deserialize)]
struct Listed {
    decisions: Vec<Kept>,
}

/// A decision as the server keeps it.
#[derive(Debug, Deserialize)]
struct Kept {
    id: u64,
    call: String,
    at: String,
    decision: ringfence_types::Decision,
    input: Box<RawValue>,
    redacted: bool,
}

pub(super) async fn case(
    id: &str,
    output: Option<&Path>,
    args: &ClientArgs,
) -> Result<ExitCode, Failure> {
    let kept = find(&Client::find(args)?, id).await?;
    let about = format!("Decision {}, call {}, {}.", kept.id, kept.call, kept.at);
    let name = format!("decision_{}", kept.id);
    let text = test_case(&name, &about, kept.input.get(), &kept.decision)
        .map_err(|problem| Failure::new(format!("decision {}: {problem}", kept.id)))?;
    if kept.redacted {
        print::note("warning: some of the document is masked, so the rules may answer otherwise\n");
    }
    match output {
        None => print::data(text.as_bytes()),
        Some(path) => write(path, &text)?,
    }
    Ok(ExitCode::from(exit::DONE))
}

async fn find(client: &Client, id: &str) -> Result<Kept, Failure> {
    if id.parse::<u64>().is_ok() {
        return client.get(&format!("/v1/decisions/{id}")).await;
    }
    let id = client.whole_id(Kind::Call, id).await?;
    let path = format!("/v1/calls/{}/decisions", escaped(&id));
    let mut listed: Listed = client.get(&path).await?;
    listed.decisions.pop().ok_or_else(|| Failure::new("there is no decision about this call"))
}

/// Writes a new file; an existing one is kept.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::because(format!("cannot write `{}`", path.display()), &error)
    };
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    if !path.to_string_lossy().ends_with("_test.rego") {
        print::note("warning: only files named *_test.rego are tests\n");
    }
    Ok(())
}
