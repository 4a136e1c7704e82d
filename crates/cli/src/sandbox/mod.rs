//! `ringfence sandbox`: session sandboxes of a server.

mod copy;
mod exec;

use std::process::ExitCode;

use reqwest::Method;
use ringfence_types::{Bytes, Cpus, SandboxNetwork, parse_duration};
use serde_json::{Map, Value, json, value::RawValue};

use crate::{
    age,
    cli::{SandboxCommand, SandboxLimitArgs},
    client::{
        Client, escaped, on_server, pretty,
        short_id::{Kind, ShortIds},
    },
    failure::Failure,
    print,
    problems::Problems,
    style::Tone,
    table::Table,
};

pub(crate) fn sandbox(command: &SandboxCommand) -> Result<ExitCode, Failure> {
    match command {
        SandboxCommand::Ls { client } => {
            on_server(client, async |server| list(server, client.json).await)
        }
        SandboxCommand::Create { limits, client } => {
            on_server(client, async |server| create(server, &request(limits)?, client.json).await)
        }
        SandboxCommand::Exec(args) => exec::exec(args),
        SandboxCommand::Cp { from, to, client } => {
            on_server(client, async |server| copy::copy(server, from, to).await)
        }
        SandboxCommand::Rm { ids, client } => {
            on_server(client, async |server| remove(server, ids).await)
        }
    }
}

/// The path of a sandbox, by its id or id suffix.
async fn place(client: &Client, id: &str) -> Result<String, Failure> {
    let id = client.whole_id(Kind::Sandbox, id).await?;
    Ok(format!("/v1/sandboxes/{}", escaped(&id)))
}

async fn list(client: &Client, is_json: bool) -> Result<(), Failure> {
    let listed: Value = client.get("/v1/sandboxes").await?;
    let sandboxes = listed["sandboxes"].as_array().map_or(&[][..], Vec::as_slice);
    if is_json {
        sandboxes.iter().for_each(|sandbox| print::line(&sandbox.to_string()));
        return Ok(());
    }
    if sandboxes.is_empty() {
        print::note("no sandboxes\n");
        return Ok(());
    }
    let ids: Vec<_> = sandboxes.iter().filter_map(|sandbox| sandbox["id"].as_str()).collect();
    let ids = ShortIds::of(&ids);
    let mut table =
        Table::new(["SANDBOX", "STATE", "AGE", "LEFT", "PROGRAMS", "MEMORY", "NETWORK"]);
    for sandbox in sandboxes {
        let text = |name: &str| sandbox[name].as_str().unwrap_or("-").to_owned();
        let secs = |name: &str| age::seconds(sandbox[name].as_f64().unwrap_or_default() as u64);
        let memory = Bytes(sandbox["memory_bytes"].as_u64().unwrap_or_default()).to_string();
        let state = text("state");
        let tone = if state == "running" { Tone::Good } else { Tone::Waiting };
        let cells = [
            ids.show(&text("id")),
            state,
            secs("age_secs"),
            secs("left_secs"),
            sandbox["programs"].to_string(),
            memory,
            text("network"),
        ];
        table.toned_row(cells, 1, tone);
    }
    print::data(table.fitted().as_bytes());
    Ok(())
}

/// The request for a sandbox, or all problems of the flags.
fn request(args: &SandboxLimitArgs) -> Result<Value, Failure> {
    let mut problems = Problems::default();
    let (mut limits, mut body) = (Map::new(), Map::new());
    let mut set =
        |map: &mut Map<String, Value>, name: &str, flag, text: &Option<String>, parse: Parse| {
            let mut value = Value::Null;
            problems.set(&mut value, flag, text, parse);
            if !value.is_null() {
                map.insert(name.to_owned(), value);
            }
        };
    set(&mut limits, "memory_bytes", "--memory", &args.memory, bytes);
    set(&mut limits, "disk_bytes", "--disk", &args.disk, bytes);
    set(&mut limits, "cpu_millis", "--cpu", &args.cpu, cpus);
    set(&mut limits, "processes", "--pids", &args.pids, count);
    set(&mut limits, "network", "--network", &args.network, network);
    set(&mut body, "idle_secs", "--idle", &args.idle, seconds);
    set(&mut body, "lifetime_secs", "--lifetime", &args.lifetime, seconds);
    let env = variables(&args.env, &mut problems);
    problems.none()?;
    if !limits.is_empty() {
        body.insert("limits".to_owned(), limits.into());
    }
    if !env.is_empty() {
        body.insert("env".to_owned(), env.into());
    }
    if !args.allow_host.is_empty() {
        body.insert("hosts".to_owned(), args.allow_host.clone().into());
    }
    if !args.allow_tool.is_empty() {
        body.insert("tools".to_owned(), args.allow_tool.clone().into());
    }
    Ok(body.into())
}

type Parse = fn(&str) -> Result<Value, String>;

fn bytes(text: &str) -> Result<Value, String> {
    text.parse::<Bytes>().map(|bytes| json!(bytes.0)).map_err(|error| error.to_string())
}

fn cpus(text: &str) -> Result<Value, String> {
    text.parse::<Cpus>().map(|cpus| json!(cpus.0)).map_err(|error| error.to_string())
}

fn count(text: &str) -> Result<Value, String> {
    text.parse::<u32>().map(Value::from).map_err(|_| format!("`{text}` is not a whole number"))
}

fn network(text: &str) -> Result<Value, String> {
    let network = text.parse::<SandboxNetwork>().map_err(|error| error.to_string())?;
    Ok(json!(network.to_string()))
}

fn seconds(text: &str) -> Result<Value, String> {
    parse_duration(text).map(|time| json!(time.as_secs())).map_err(|error| error.to_string())
}

/// Variables from `NAME=VALUE`.
fn variables(given: &[String], problems: &mut Problems) -> Map<String, Value> {
    let pair = |text: &String| {
        let (name, value) =
            text.split_once('=').ok_or(format!("--env: `{text}` is not NAME=VALUE"))?;
        Ok((name.to_owned(), json!(value)))
    };
    given.iter().filter_map(|text| problems.keep(pair(text))).collect()
}

async fn create(client: &Client, body: &Value, is_json: bool) -> Result<(), Failure> {
    let request = client.request(Method::POST, "/v1/sandboxes");
    let request = request.header("content-type", "application/json").body(body.to_string());
    let text = client.text(client.send(request).await?).await?;
    let made: Box<RawValue> = RawValue::from_string(text)
        .map_err(|error| Failure::because("the server's answer is not understood", &error))?;
    if is_json {
        print::line(&pretty::compact(made.get()));
        return Ok(());
    }
    let made: Value = serde_json::from_str(made.get()).unwrap_or_default();
    // Only the id on standard output, for scripts.
    print::line(made["id"].as_str().unwrap_or_default());
    let left = age::seconds(made["left_secs"].as_f64().unwrap_or_default() as u64);
    print::note(&format!("it ends after {left} without use\n"));
    Ok(())
}

async fn remove(client: &Client, ids: &[String]) -> Result<(), Failure> {
    for id in ids {
        let request = client.request(Method::DELETE, &place(client, id).await?);
        client.send(request).await?;
    }
    Ok(())
}
