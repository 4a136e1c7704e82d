//! `ringfence tool`: the lifecycle of tools on a server.

mod show;

use std::{io::Read as _, path::Path, process::ExitCode};

use reqwest::Method;
use ringfence_types::{Bytes, Cpus, ToolPermissions, parse_duration};
use serde_json::{Value, json};

use crate::{
    calls,
    cli::{
        CallsArgs, ClientArgs, GrantArgs, ToolApproveArgs, ToolChangeArgs, ToolCommand,
        ToolGrantArgs, ToolVersionArgs,
    },
    client::{Client, escaped, on_server},
    discover, exit,
    failure::Failure,
    print,
    problems::Problems,
};

pub(crate) fn tool(command: ToolCommand) -> Result<ExitCode, Failure> {
    match command {
        ToolCommand::List { status, client } => {
            on_server(&client, async |server| list(server, status.as_deref(), client.json).await)
        }
        ToolCommand::Import { file, client } => {
            let bytes = read(&file)?;
            let source = file.display().to_string();
            let query = [("kind", Some("manifest")), ("source", Some(source.as_str()))];
            on_server(&client, async |server| import(server, &query, bytes, client.json).await)
        }
        ToolCommand::Openapi { document, prefix, server: api, client } => {
            let is_url = document.starts_with("http://") || document.starts_with("https://");
            let bytes = if is_url { Vec::new() } else { read(Path::new(&document))? };
            let query = [
                ("kind", Some("openapi")),
                ("source", Some(document.as_str())),
                ("url", Some(document.as_str()).filter(|_| is_url)),
                ("prefix", prefix.as_deref()),
                ("server", api.as_deref()),
            ];
            on_server(&client, async |server| import(server, &query, bytes, client.json).await)
        }
        ToolCommand::Search { words, directory: true, client } => {
            discover::ask(&client, &json!({"capability": words.join(" "), "propose": 0}))
        }
        ToolCommand::Add { name, client } => {
            discover::ask(&client, &json!({"capability": name, "name": name, "propose": 1}))
        }
        ToolCommand::Search { words, client, .. } => on_server(&client, async |server| {
            let path = format!("/v1/tools?query={}", escaped(&words.join(" ")));
            let found: Value = server.get(&path).await?;
            let tools = found["tools"].as_array().cloned().unwrap_or_default();
            match client.json {
                true => tools.iter().for_each(|tool| print::line(&tool.to_string())),
                false if tools.is_empty() => print::note("no tool matches\n"),
                false => print::data(show::found(&tools).as_bytes()),
            }
            Ok(())
        }),
        ToolCommand::Show { name, client } => on_server(&client, async |server| {
            let path = format!("/v1/tools/{}/lifecycle", escaped(&name));
            let found: Value = server.get(&path).await?;
            answer(&found, client.json, show::versions);
            Ok(())
        }),
        ToolCommand::Approve(args) => approve(&args),
        ToolCommand::Grant(args) => grant(&args),
        ToolCommand::Diff { name, which, client } => on_server(&client, async |server| {
            let query = query(&which);
            let path = format!("/v1/tools/{}/diff{query}", escaped(&name));
            let found: Value = server.get(&path).await?;
            answer(&found, client.json, show::differences);
            Ok(())
        }),
        ToolCommand::Enable(args) => change(&args, "enable"),
        ToolCommand::Disable(args) => change(&args, "disable"),
        ToolCommand::Quarantine(args) => change(&args, "quarantine"),
        ToolCommand::Revoke(args) => change(&args, "revoke"),
        ToolCommand::Test { name, version, last, client } => {
            let mut is_good = true;
            on_server(&client, async |server| {
                is_good = test(server, &name, version.as_deref(), last, client.json).await?;
                Ok(())
            })?;
            Ok(ExitCode::from(if is_good { exit::DONE } else { exit::FAILED }))
        }
        ToolCommand::Data { name, content, delete, client } => on_server(&client, async |server| {
            let path = format!("/v1/tools/{}/data", escaped(&name));
            if delete {
                let response = server.send(server.request(Method::DELETE, &path)).await?;
                print::note(&format!("{}\n", server.text(response).await?));
                return Ok(());
            }
            let query = if content { "?content=true" } else { "" };
            let found: Value = server.get(&format!("{path}{query}")).await?;
            answer(&found, client.json || content, show::data);
            Ok(())
        }),
        ToolCommand::Logs { name, limit, client } => {
            calls::calls(&CallsArgs::of_tool(name, limit, client))
        }
    }
}

/// The bytes of a file, or of standard input.
fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = match file.to_str() {
        Some("-") => std::io::stdin().read_to_end(&mut bytes).map(drop),
        _ => std::fs::read(file).map(|content| bytes = content),
    };
    match read {
        Ok(()) => Ok(bytes),
        Err(error) => Err(Failure::because(format!("read `{}`", file.display()), &error)),
    }
}

async fn import(
    server: &Client,
    query: &[(&str, Option<&str>)],
    bytes: Vec<u8>,
    is_json: bool,
) -> Result<(), Failure> {
    let given = query.iter().filter_map(|(name, value)| Some((name, (*value)?)));
    let pairs: Vec<_> = given.map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    let request = server.request(Method::POST, &format!("/v1/tool-imports?{}", pairs.join("&")));
    let request = request.header("content-type", "application/octet-stream").body(bytes);
    let response = server.send(request).await?;
    let text = server.text(response).await?;
    let imported: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::because("the server's answer is not understood", &error))?;
    answer(&imported, is_json, show::imported);
    if !is_json {
        print::note(&show::left_out(&imported));
    }
    Ok(())
}

async fn list(server: &Client, status: Option<&str>, is_json: bool) -> Result<(), Failure> {
    let query = status.map(|status| format!("?status={}", escaped(status))).unwrap_or_default();
    let found: Value = server.get(&format!("/v1/tool-catalog{query}")).await?;
    let tools = found["tools"].as_array().cloned().unwrap_or_default();
    match is_json {
        true => tools.iter().for_each(|tool| print::line(&tool.to_string())),
        false if tools.is_empty() => print::note("no tools\n"),
        false => print::data(show::table(&tools).as_bytes()),
    }
    Ok(())
}

fn approve(args: &ToolApproveArgs) -> Result<ExitCode, Failure> {
    let grants = permissions(&args.grants)?;
    on_server(&args.client, async |server| {
        let mut body = body(&args.which, &args.why);
        body["stay_off"] = json!(args.stay_off);
        if let Some(grants) = &grants {
            body["grants"] = json!(grants);
        }
        post(server, &args.name, "approve", &body, &args.client).await?;
        if args.test {
            let version = args.which.version.as_deref();
            test(server, &args.name, version, false, args.client.json).await?;
        }
        Ok(())
    })
}

/// Runs the examples of a tool, or shows the newest results.
async fn test(
    server: &Client,
    name: &str,
    version: Option<&str>,
    is_last: bool,
    is_json: bool,
) -> Result<bool, Failure> {
    let version = version.map(|version| format!("?version={}", escaped(version)));
    let path = format!("/v1/tools/{}/test{}", escaped(name), version.unwrap_or_default());
    let found: Value = match is_last {
        true => server.get(&path).await?,
        false => server.post(&path, &json!({})).await?,
    };
    answer(&found, is_json, show::tested);
    Ok(found["failed"].as_u64() == Some(0))
}

fn grant(args: &ToolGrantArgs) -> Result<ExitCode, Failure> {
    let grants = permissions(&args.grants)?.ok_or_else(|| {
        Failure::new("no permission is named").hint("name what it may do, or --nothing")
    })?;
    on_server(&args.client, async |server| {
        let mut body = body(&args.which, &args.why);
        body["grants"] = json!(grants);
        post(server, &args.name, "grant", &body, &args.client).await
    })
}

fn change(args: &ToolChangeArgs, event: &str) -> Result<ExitCode, Failure> {
    on_server(&args.client, async |server| {
        let mut body = body(&args.which, &args.why);
        body["stop_running"] = json!(args.stop_running);
        if args.delete_data {
            body["delete_data"] = json!(true);
        }
        post(server, &args.name, event, &body, &args.client).await
    })
}

async fn post(
    server: &Client,
    name: &str,
    event: &str,
    body: &Value,
    args: &ClientArgs,
) -> Result<(), Failure> {
    let changed = server.post(&format!("/v1/tools/{}/{event}", escaped(name)), body).await?;
    answer(&changed, args.json, show::changed);
    Ok(())
}

fn answer(found: &Value, is_json: bool, text: impl Fn(&Value) -> String) {
    match is_json {
        true => print::line(&found.to_string()),
        false => print::data(text(found).as_bytes()),
    }
}

fn body(which: &ToolVersionArgs, why: &str) -> Value {
    let mut body = json!({"why": why});
    if let Some(version) = &which.version {
        body["version"] = json!(version);
    }
    if let Some(digest) = &which.digest {
        body["digest"] = json!(digest);
    }
    body
}

fn query(which: &ToolVersionArgs) -> String {
    let parts = [("version", &which.version), ("digest", &which.digest)];
    let parts = parts.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let parts: Vec<_> = parts.map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    if parts.is_empty() { String::new() } else { format!("?{}", parts.join("&")) }
}

/// The named permissions; none if none is named.
fn permissions(args: &GrantArgs) -> Result<Option<ToolPermissions>, Failure> {
    let mut problems = Problems::default();
    let (mut storage, mut memory, mut cpus, mut wall) = (None, None, None, None);
    problems.set_some(&mut storage, "--storage", &args.storage, str::parse::<Bytes>);
    problems.set_some(&mut memory, "--memory", &args.memory, str::parse::<Bytes>);
    problems.set_some(&mut cpus, "--cpu", &args.cpu, str::parse::<Cpus>);
    problems.set_some(&mut wall, "--timeout", &args.timeout, parse_duration);
    problems.none()?;
    let named = ToolPermissions {
        hosts: args.hosts.clone(),
        storage_bytes: storage.map_or(0, |bytes| bytes.0),
        secrets: args.secrets.clone(),
        tools: args.tools.clone(),
        cpu_millis: cpus.map(|cpus| cpus.0),
        memory_bytes: memory.map(|bytes| bytes.0),
        processes: args.pids,
        wall_ms: wall.map(|wall| u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)),
    };
    Ok((args.nothing || named != ToolPermissions::default()).then_some(named))
}
