//! `ringfence mcp add|list|rm`: MCP servers of others as sources of tools.

use std::{collections::BTreeMap, fs};

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use crate::{
    cli::{McpAddArgs, McpListArgs, McpRemoveArgs},
    client::{Client, escaped, pretty},
    failure::Failure,
    print,
    table::Table,
};

#[derive(Debug, Deserialize)]
struct Listed {
    servers: Vec<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
struct Server {
    name: String,
    command: Option<Vec<String>>,
    url: Option<String>,
    health: Health,
    tools: Vec<Tool>,
    broken: Vec<Broken>,
}

#[derive(Debug, Deserialize)]
struct Health {
    state: String,
    call_id: Option<String>,
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Tool {
    name: String,
    status: String,
    findings: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Broken {
    name: String,
    problem: String,
}

pub(super) async fn add(client: &Client, args: &McpAddArgs) -> Result<(), Failure> {
    let servers = match &args.file {
        Some(file) => {
            let text = fs::read_to_string(file).map_err(|error| {
                Failure::because(format!("cannot read `{}`", file.display()), &error)
            })?;
            from_file(&text).map_err(|problem| {
                Failure::new(format!("`{}`: {problem}", file.display()))
                    .hint("a file has `{\"mcpServers\": {\"NAME\": {\"command\": …}}}`")
            })?
        }
        None => vec![from_arguments(args)?],
    };
    for server in &servers {
        let added = client.post("/v1/mcp/servers", server).await?;
        if args.client.json {
            print::line(&added.to_string());
            continue;
        }
        let name = server["name"].as_str().unwrap_or_default();
        print::note(&format!(
            "added `{name}`; its tools are offered once they are approved:\n  \
             ringfence mcp list\n  ringfence tool approve {name}__TOOL\n"
        ));
    }
    Ok(())
}

fn from_arguments(args: &McpAddArgs) -> Result<Value, Failure> {
    let Some(name) = &args.name else {
        return Err(Failure::new("name the server, or a file with --file"));
    };
    let mut server = json!({"name": name});
    let pairs = |texts: &[String], separator: char, what: &str| -> Result<Value, Failure> {
        let mut map = Map::new();
        for text in texts {
            let (key, value) = text
                .split_once(separator)
                .ok_or_else(|| Failure::new(format!("{what} `{text}` has no `{separator}`")))?;
            map.insert(key.trim().to_owned(), json!(value.trim_start()));
        }
        Ok(Value::Object(map))
    };
    if !args.command.is_empty() {
        server["command"] = json!(args.command);
    }
    if let Some(url) = &args.http {
        server["url"] = json!(url);
    }
    for (field, texts) in [("packages", &args.package), ("hosts", &args.allow_host)] {
        if !texts.is_empty() {
            server[field] = json!(texts);
        }
    }
    if !args.env.is_empty() {
        server["env"] = pairs(&args.env, '=', "variable")?;
    }
    if !args.header.is_empty() {
        server["headers"] = pairs(&args.header, ':', "header")?;
    }
    if !args.safety_flag.is_empty() {
        server["safety_flags"] = json!(args.safety_flag);
    }
    if let Some(memory) = args.memory {
        server["memory_bytes"] = json!(memory.0);
    }
    if let Some(timeout) = args.timeout {
        server["timeout_secs"] = json!(timeout);
    }
    Ok(server)
}

/// Servers of a client's configuration: `command` is a text with `args` beside it, or a list.
fn from_file(text: &str) -> Result<Vec<Value>, String> {
    let root: Value = serde_json::from_str(text).map_err(|error| format!("not JSON ({error})"))?;
    let servers = root.get("mcpServers").or_else(|| root.get("servers"));
    let servers = servers.and_then(Value::as_object).ok_or("no object `mcpServers`")?;
    let mut all = Vec::new();
    for (name, entry) in servers {
        let fields = entry.as_object().ok_or_else(|| format!("`{name}` is not an object"))?;
        let mut server: BTreeMap<&str, Value> =
            fields.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
        server.remove("type");
        let more = server.remove("args");
        if let Some(Value::String(command)) = server.get("command").cloned() {
            let mut words = vec![json!(command)];
            words.extend(more.and_then(|more| more.as_array().cloned()).unwrap_or_default());
            server.insert("command", Value::Array(words));
        }
        server.insert("name", json!(name));
        all.push(json!(server));
    }
    Ok(all)
}

pub(super) async fn list(client: &Client, args: &McpListArgs) -> Result<(), Failure> {
    let listed: Listed = client.get("/v1/mcp/servers").await?;
    if args.client.json {
        listed.servers.iter().for_each(|row| print::line(&pretty::compact(row.get())));
        return Ok(());
    }
    let servers: Vec<Server> = listed
        .servers
        .iter()
        .map(|row| serde_json::from_str(row.get()))
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::because("the server's answer is not understood", &error))?;
    let mut table = Table::new(["SERVER", "STATE", "TOOLS", "RUNS"]);
    for server in &servers {
        let active = server.tools.iter().filter(|tool| tool.status == "active").count();
        let runs = match (&server.command, &server.url) {
            (Some(command), _) => command.join(" "),
            (None, url) => url.clone().unwrap_or_default(),
        };
        let tools = format!("{active} of {}", server.tools.len() + server.broken.len());
        table.row([server.name.clone(), server.health.state.clone(), tools, runs]);
    }
    print::data(table.fitted().as_bytes());
    for server in &servers {
        tell(server);
    }
    Ok(())
}

/// Notes about everything that waits for a person.
fn tell(server: &Server) {
    if let Some(call) = &server.health.call_id {
        print::note(&format!("{}: waits for approval: ringfence approve {call}\n", server.name));
    }
    if let Some(reason) = &server.health.reason {
        print::note(&format!("{}: {reason}\n", server.name));
    }
    for tool in server.tools.iter().filter(|tool| tool.status != "active") {
        print::note(&format!("{} is {}: ringfence tool approve {0}\n", tool.name, tool.status));
        for finding in &tool.findings {
            print::note(&format!("  its description {finding}\n"));
        }
    }
    for broken in &server.broken {
        print::note(&format!("{}: tool `{}`: {}\n", server.name, broken.name, broken.problem));
    }
}

pub(super) async fn remove(client: &Client, args: &McpRemoveArgs) -> Result<(), Failure> {
    let path = format!("/v1/mcp/servers/{}", escaped(&args.name));
    client.send(client.request(Method::DELETE, &path)).await?;
    print::note(&format!("removed `{}`; its tools are withdrawn\n", args.name));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_of_a_client_is_read() {
        let text = r#"{"mcpServers": {
            "time": {"type": "stdio", "command": "python3", "args": ["-m", "x"], "packages": ["pypi:x==1.0"]},
            "far": {"url": "https://example.com/mcp", "headers": {"A": "b"}}}}"#;
        let servers = from_file(text).unwrap();
        assert_eq!(
            servers,
            [
                json!({"name": "far", "url": "https://example.com/mcp", "headers": {"A": "b"}}),
                json!({"name": "time", "command": ["python3", "-m", "x"], "packages": ["pypi:x==1.0"]}),
            ]
        );
        for bad in ["", "[]", "{}", r#"{"mcpServers": []}"#, r#"{"mcpServers": {"a": 1}}"#] {
            from_file(bad).unwrap_err();
        }
    }
}
