//! `ringfence secret`: sets, lists and removes secrets of tools.

use std::{
    fs,
    io::{self, Read as _},
    process::ExitCode,
};

use reqwest::Method;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::{
    age,
    cli::{ClientArgs, SecretCommand, SecretSetArgs},
    client::{Client, escaped},
    exit,
    failure::Failure,
    print,
    run::runtime,
    table::{Table, cut},
};

/// Length limit of a value, as of the server.
const MAX_VALUE_BYTES: u64 = 16 << 10;

pub(crate) fn secret(command: &SecretCommand) -> Result<ExitCode, Failure> {
    let (SecretCommand::Set(SecretSetArgs { client, .. })
    | SecretCommand::List { client }
    | SecretCommand::Rm { client, .. }
    | SecretCommand::Rotate { client }) = command;
    let done = runtime()?.block_on(carry_out(command, client));
    done.map_err(|failure| failure.in_json(client.json))?;
    Ok(ExitCode::from(exit::DONE))
}

async fn carry_out(command: &SecretCommand, args: &ClientArgs) -> Result<(), Failure> {
    match command {
        SecretCommand::Set(set) => {
            let value = value(set)?;
            let body = json!({
                "value": value.as_str(), "tools": set.tool, "hosts": set.host,
                "header": set.header, "format": set.format, "query": set.query,
            });
            let client = Client::find(args)?;
            let path = format!("/v1/secrets/{}", escaped(&set.name));
            let request = client.request(Method::PUT, &path);
            let request = request.header("content-type", "application/json");
            let made = client.send(request.body(body.to_string())).await?;
            let made = client.text(made).await?;
            if args.json {
                print::line(made.trim());
            } else {
                print::note(&format!("secret {} set\n", set.name));
            }
            Ok(())
        }
        SecretCommand::List { .. } => list(&Client::find(args)?, args.json).await,
        SecretCommand::Rm { name, .. } => {
            let client = Client::find(args)?;
            let path = format!("/v1/secrets/{}", escaped(name));
            client.send(client.request(Method::DELETE, &path)).await?;
            Ok(())
        }
        SecretCommand::Rotate { .. } => {
            let client = Client::find(args)?;
            let done = client.post("/v1/admin/secrets/rotate", &json!({})).await?;
            if args.json {
                print::line(&done.to_string());
            } else {
                print::note(&format!("{} secrets encrypted anew\n", done["resealed"]));
            }
            Ok(())
        }
    }
}

/// The value: from a file, a variable or standard input, and never from an argument, which other
/// users of the machine can read. One line break at the end is removed.
fn value(set: &SecretSetArgs) -> Result<Zeroizing<String>, Failure> {
    let mut value = Zeroizing::new(String::new());
    if let Some(name) = &set.from_env {
        let found = std::env::vars_os().find(|(variable, _)| variable.to_str() == Some(name));
        let text = found.and_then(|(_, text)| text.into_string().ok());
        *value = text.ok_or_else(|| {
            Failure::new(format!("the variable `{name}` is not set, or is not text"))
        })?;
    } else {
        let unreadable = |error: io::Error| match &set.from_file {
            Some(path) => Failure::because(format!("cannot read `{}`", path.display()), &error),
            None => Failure::because("cannot read the value from standard input", &error),
        };
        let source: Box<dyn io::Read> = match &set.from_file {
            Some(path) => Box::new(fs::File::open(path).map_err(unreadable)?),
            None => Box::new(io::stdin()),
        };
        let read = source.take(MAX_VALUE_BYTES + 2).read_to_string(&mut value);
        read.map_err(unreadable)?;
    }
    let end = value.trim_end_matches(['\r', '\n']).len();
    value.truncate(end);
    match value.len() as u64 {
        0 => Err(Failure::new("the value is empty")
            .hint("give it on standard input, or by --from-file or --from-env")),
        length if length > MAX_VALUE_BYTES => {
            Err(Failure::new(format!("the value has more than {MAX_VALUE_BYTES} bytes")))
        }
        _ => Ok(value),
    }
}

async fn list(client: &Client, is_json: bool) -> Result<(), Failure> {
    let listed: Value = client.get("/v1/secrets").await?;
    let secrets = listed["secrets"].as_array().cloned().unwrap_or_default();
    if is_json {
        secrets.iter().for_each(|secret| print::line(&secret.to_string()));
        return Ok(());
    }
    let mut table = Table::new(["NAME", "SENT AS", "SET", "TOOLS", "HOSTS"]);
    for secret in &secrets {
        let text = |name: &str| secret[name].as_str().unwrap_or("-").to_owned();
        let texts = |name: &str| {
            let items = secret[name].as_array().into_iter().flatten().filter_map(Value::as_str);
            items.collect::<Vec<_>>().join(" ")
        };
        let place = match secret["query"].as_str() {
            Some(name) => format!("?{name}="),
            None => format!("{}: {}", text("header"), text("format")),
        };
        let set = age::ago(&text("set_at"));
        table.row([text("name"), cut(&place, 32), set, texts("tools"), texts("hosts")]);
    }
    print::data(table.fitted().as_bytes());
    Ok(())
}
