//! `ringfence tools`: lists the tools of a server, or shows one.

use std::{fmt::Write, process::ExitCode};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{
    cli::ToolsArgs,
    client::{Client, escaped, pretty},
    exit,
    failure::Failure,
    print,
    run::runtime,
    table::{Table, plain},
};

/// The shown part of a tool.
#[derive(Debug, Deserialize)]
struct Tool {
    name: String,
    description: String,
    version: String,
    origin: String,
    safety_flags: Vec<String>,
    #[serde(default)]
    requires_approval: bool,
    #[serde(default)]
    memoised: bool,
    parameters: Box<RawValue>,
    output_schema: Box<RawValue>,
    digest: String,
    limits: Value,
    circuit: Option<Circuit>,
}

#[derive(Debug, Deserialize)]
struct Circuit {
    state: String,
    failures: u32,
    retry_at: Option<String>,
}

/// All tools of a server, as they came.
#[derive(Debug, Deserialize)]
struct Listed {
    tools: Vec<Box<RawValue>>,
    #[serde(default)]
    broken: Vec<Broken>,
}

#[derive(Debug, Deserialize)]
struct Broken {
    name: String,
    problems: Vec<String>,
}

pub(crate) fn tools(args: &ToolsArgs) -> Result<ExitCode, Failure> {
    let told = runtime()?.block_on(async {
        let client = Client::find(&args.client)?;
        match &args.name {
            Some(name) => one(&client, name, args.client.json).await,
            None => all(&client, args.client.json).await,
        }
    });
    told.map_err(|failure| failure.in_json(args.client.json))?;
    Ok(ExitCode::from(exit::DONE))
}

async fn all(client: &Client, is_json: bool) -> Result<(), Failure> {
    let listed: Listed = client.get("/v1/tools").await?;
    if is_json {
        listed.tools.iter().for_each(|tool| print::line(&pretty::compact(tool.get())));
    } else {
        let mut table = Table::new(["NAME", "VERSION", "FROM", "FLAGS", "DESCRIPTION"]);
        for tool in &listed.tools {
            let tool: Tool = understood(tool.get())?;
            let flags = flags(&tool);
            let about = plain(&tool.description);
            table.row([tool.name, tool.version, tool.origin, flags, about]);
        }
        print::data(table.fitted().as_bytes());
    }
    for Broken { name, problems } in &listed.broken {
        print::note(&format!("broken: {}: {}\n", plain(name), plain(&problems.join("; "))));
    }
    Ok(())
}

async fn one(client: &Client, name: &str, is_json: bool) -> Result<(), Failure> {
    let tool: Box<RawValue> = client.get(&format!("/v1/tools/{}", escaped(name))).await?;
    match is_json {
        true => print::line(&pretty::compact(tool.get())),
        false => print::data(details(&understood(tool.get())?).as_bytes()),
    }
    Ok(())
}

fn understood(text: &str) -> Result<Tool, Failure> {
    serde_json::from_str(text)
        .map_err(|error| Failure::because("the server's answer is not understood", &error))
}

fn flags(tool: &Tool) -> String {
    let approval = tool.requires_approval.then_some("requires_approval");
    let memoised = tool.memoised.then_some("memoised");
    let circuit = tool.circuit.as_ref().map(|circuit| circuit.state.as_str());
    let circuit = circuit.filter(|state| *state != "closed").map(|_| "circuit_open");
    let flags = tool.safety_flags.iter().map(String::as_str);
    let flags = flags.chain(approval).chain(memoised).chain(circuit);
    flags.collect::<Vec<_>>().join(" ")
}

fn details(tool: &Tool) -> String {
    let mut text = format!("{} {}\n", plain(&tool.name), plain(&tool.version));
    let _ = writeln!(text, "{}\n", plain(&tool.description));
    let _ = writeln!(text, "flags   {}", plain(&flags(tool)));
    let _ = writeln!(text, "from    {}", plain(&tool.origin));
    let _ = writeln!(text, "digest  {}", plain(&tool.digest));
    let _ = writeln!(text, "limits  {}", limits(&tool.limits));
    if let Some(Circuit { state, failures, retry_at }) = &tool.circuit {
        let again = retry_at.as_ref().map(|at| format!(", tried again at {at}"));
        let failures = format!("{state} after {failures} failures{}", again.unwrap_or_default());
        let _ = writeln!(text, "circuit {}", plain(&failures));
    }
    let _ = writeln!(text, "\ntakes {}", pretty::pretty(tool.parameters.get()));
    let _ = writeln!(text, "\ngives {}", pretty::pretty(tool.output_schema.get()));
    text
}

fn limits(limits: &Value) -> String {
    let Some(limits) = limits.as_object() else { return String::new() };
    let one = |(name, value): (&String, &Value)| plain(&format!("{name}={value}"));
    limits.iter().map(one).collect::<Vec<_>>().join(" ")
}
