//! `ringfence plan`: plans from files, and those of a server.

use std::{
    collections::BTreeMap,
    io::{IsTerminal as _, Read as _},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    age,
    cli::{ClientArgs, PlanCommand, PlanIdArgs, PlanStepArgs},
    client::{Client, escaped, on_server, pretty, sse::Events},
    exit,
    failure::Failure,
    print,
    table::{Table, plain},
};

/// Bytes of a file.
const MAX_FILE_BYTES: u64 = 512 << 10;
/// Pause before a lost server is asked again, and number of tries.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
const MAX_RECONNECTS: u32 = 120;

pub(crate) fn plan(command: &PlanCommand) -> Result<ExitCode, Failure> {
    match command {
        PlanCommand::Run { file, detach, client } => {
            let text = read(file)?;
            on_server(client, async |server| run(server, &text, *detach, client).await)
        }
        PlanCommand::Preview { file, client } => {
            let text = read(file)?;
            on_server(client, async |server| preview(server, &text, client.json).await)
        }
        PlanCommand::Ls { status, client } => {
            on_server(client, async |server| list(server, status.as_deref(), client.json).await)
        }
        PlanCommand::Show(args) => with_plan(args, async |server, id| {
            let plan: Value = server.get(&path(id, "")).await?;
            show(&plan, args.client.json);
            Ok(())
        }),
        PlanCommand::Watch(args) => {
            with_plan(args, async |server, id| watch(server, id, &args.client).await)
        }
        PlanCommand::Graph(args) => with_plan(args, async |server, id| {
            let plan: Value = server.get(&path(id, "")).await?;
            print::data(graph(&plan).as_bytes());
            Ok(())
        }),
        PlanCommand::Pause(args) => change(args, &json!({"action": "pause"})),
        PlanCommand::Resume(args) => change(args, &json!({"action": "resume"})),
        PlanCommand::Cancel(args) => change(args, &json!({"action": "cancel"})),
        PlanCommand::Retry { id, step, client } => on_server(client, async |server| {
            let mut body = json!({"action": "retry"});
            if let Some(step) = step {
                body["step"] = json!(step);
            }
            show(&server.post(&path(id, "/change"), &body).await?, client.json);
            Ok(())
        }),
        PlanCommand::Step(args) => step(args),
        PlanCommand::Rm(args) => with_plan(args, async |server, id| {
            server.send(server.request(Method::DELETE, &path(id, ""))).await?;
            Ok(())
        }),
    }
}

fn path(id: &str, rest: &str) -> String {
    format!("/v1/plans/{}{rest}", escaped(id))
}

fn read(file: &Path) -> Result<String, Failure> {
    let failed = |error: &std::io::Error| {
        Failure::because(format!("cannot read `{}`", file.display()), error)
    };
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().take(MAX_FILE_BYTES + 1).read_to_string(&mut text)
    } else {
        let file = std::fs::File::open(file).map_err(|error| failed(&error))?;
        file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)
    };
    read.map_err(|error| failed(&error))?;
    if text.len() as u64 > MAX_FILE_BYTES {
        let message = format!("a plan has at most {} KiB", MAX_FILE_BYTES >> 10);
        return Err(Failure::new(message));
    }
    Ok(text)
}

fn with_plan(
    args: &PlanIdArgs,
    act: impl AsyncFnOnce(&Client, &str) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    on_server(&args.client, async |server| act(server, &args.id).await)
}

fn change(args: &PlanIdArgs, body: &Value) -> Result<ExitCode, Failure> {
    with_plan(args, async |server, id| {
        show(&server.post(&path(id, "/change"), body).await?, args.client.json);
        Ok(())
    })
}

fn step(args: &PlanStepArgs) -> Result<ExitCode, Failure> {
    let mut body = json!({"action": args.action});
    for (name, text) in [("payload", &args.payload), ("result", &args.result)] {
        if let Some(text) = text {
            let value: Value = serde_json::from_str(text)
                .map_err(|error| Failure::because(format!("--{name} is not JSON"), &error))?;
            body[name] = value;
        }
    }
    on_server(&args.client, async |server| {
        let place = path(&args.id, &format!("/steps/{}", escaped(&args.step)));
        show(&server.post(&place, &body).await?, args.client.json);
        Ok(())
    })
}

async fn run(
    server: &Client,
    text: &str,
    is_detached: bool,
    args: &ClientArgs,
) -> Result<(), Failure> {
    let made = server.post("/v1/plans", &json!({"yaml": text, "run": true})).await?;
    let id = made["id"].as_str().unwrap_or_default().to_owned();
    if is_detached {
        print::line(&if args.json { made.to_string() } else { id });
        return Ok(());
    }
    if !args.json {
        print::note(&format!("plan {id}\n"));
    }
    watch(server, &id, args).await
}

async fn preview(server: &Client, text: &str, is_json: bool) -> Result<(), Failure> {
    let found = server.post("/v1/plans/preview", &json!({"yaml": text})).await?;
    if is_json {
        print::line(&found.to_string());
    } else {
        let mut table = Table::new(["STEP", "TYPE", "TOOL", "AFTER", "VERDICT", "HOSTS"]);
        for step in found["steps"].as_array().into_iter().flatten() {
            let bound = if step["bound"] == true { " (bound)" } else { "" };
            table.row([
                field(step, "id"),
                field(step, "type"),
                field(step, "tool"),
                joined(&step["dependsOn"]),
                format!("{}{bound}", field(step, "verdict")),
                joined(&step["hosts"]),
            ]);
        }
        print::data(table.fitted().as_bytes());
    }
    let problems = found["problems"].as_array().into_iter().flatten();
    let problems: Vec<_> = problems
        .map(|problem| format!("{}: {}", field(problem, "pointer"), field(problem, "message")))
        .collect();
    match found["ok"] == true {
        true => Ok(()),
        false if problems.is_empty() => {
            let denied = joined(&found["denied"]);
            Err(Failure::new(format!("policy denies: {denied}")).code(exit::DENIED))
        }
        false => Err(Failure::listing("the plan has problems", problems)),
    }
}

async fn list(server: &Client, status: Option<&str>, is_json: bool) -> Result<(), Failure> {
    let query = status.map(|status| format!("?status={}", escaped(status))).unwrap_or_default();
    let found: Value = server.get(&format!("/v1/plans{query}")).await?;
    let plans = found["plans"].as_array().cloned().unwrap_or_default();
    if is_json {
        plans.iter().for_each(|plan| print::line(&plan.to_string()));
        return Ok(());
    }
    let mut table = Table::new(["PLAN", "STATUS", "CHANGED", "GOAL"]);
    for plan in &plans {
        let goal: String = field(plan, "goal").chars().take(60).collect();
        let changed = age::ago(&field(plan, "changedAt"));
        table.row([field(plan, "id"), field(plan, "status"), changed, goal]);
    }
    print::data(table.fitted().as_bytes());
    Ok(())
}

/// A text of a view, without what could move the cursor.
fn field(value: &Value, name: &str) -> String {
    plain(value[name].as_str().unwrap_or_default())
}

fn joined(list: &Value) -> String {
    let names: Vec<_> = list.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    plain(&names.join(", "))
}

fn show(plan: &Value, is_json: bool) {
    if is_json {
        print::line(&plan.to_string());
    } else {
        print::data(tree(plan).as_bytes());
    }
}

/// The plan as lines: each step below those that it comes after.
fn tree(plan: &Value) -> String {
    let steps = plan["steps"].as_array().cloned().unwrap_or_default();
    let mut depths: BTreeMap<String, usize> = BTreeMap::new();
    // As many rounds as the graph is deep; the server takes no cycles.
    for _ in 0..steps.len() {
        for step in &steps {
            let needs = step["dependsOn"].as_array().into_iter().flatten();
            let deepest = needs
                .filter_map(|need| depths.get(need.as_str()?))
                .map(|depth| depth + 1)
                .max()
                .unwrap_or(0);
            depths.insert(field(step, "id"), deepest);
        }
    }
    let mut text = format!("{} {}\n", field(plan, "status"), field(plan, "goal"));
    if let Some(reason) = plan["reason"].as_str() {
        text += &format!("  {}\n", plain(reason));
    }
    for step in &steps {
        let status = field(step, "status");
        let mark = match status.as_str() {
            "completed" => '+',
            "running" | "waiting" => '>',
            "held" | "awaiting" | "unknown" => '?',
            "failed" | "cancelled" => 'x',
            "skipped" => '-',
            _ => '.',
        };
        let indent = "  ".repeat(depths.get(&field(step, "id")).copied().unwrap_or(0).min(20) + 1);
        text += &format!("{indent}{mark} {} {}: {status}", field(step, "id"), field(step, "type"));
        if let Some(attempt) = step["attempt"].as_u64().filter(|attempt| *attempt > 1) {
            text += &format!(", attempt {attempt}");
        }
        let calls = step["calls"].as_array().cloned().unwrap_or_default();
        if calls.len() > 1 {
            let done = calls.iter().filter(|call| call["status"] == "completed").count();
            text += &format!(", {done} of {}", calls.len());
        }
        if status == "held" {
            let held = calls.iter().find(|call| call["status"] == "held");
            let call = held.map(|call| field(call, "call")).unwrap_or_default();
            text += &format!(", ringfence approve {call}");
        }
        if let Some(message) = step["error"]["message"].as_str() {
            text += &format!(", {}", plain(message));
        }
        text.push('\n');
    }
    text
}

/// The graph in the language of Graphviz.
fn graph(plan: &Value) -> String {
    let mut text = "digraph plan {\n  rankdir=LR;\n  node [shape=box];\n".to_owned();
    for step in plan["steps"].as_array().into_iter().flatten() {
        let (id, kind, status) = (field(step, "id"), field(step, "type"), field(step, "status"));
        text += &format!("  \"{id}\" [label=\"{id}\\n{kind}\\n{status}\"];\n");
        for need in step["dependsOn"].as_array().into_iter().flatten() {
            text += &format!("  \"{}\" -> \"{id}\";\n", plain(need.as_str().unwrap_or_default()));
        }
    }
    text + "}\n"
}

/// Follows a plan until it ends or waits for a person.
async fn watch(server: &Client, id: &str, args: &ClientArgs) -> Result<(), Failure> {
    let mut watch = Watch {
        server,
        id,
        is_json: args.json,
        is_live: !args.json && std::io::stdout().is_terminal(),
        last_id: 0,
        lines: 0,
    };
    let mut failures = 0;
    loop {
        match watch.follow().await {
            Ok(Some(plan)) => return watch.end(&plan),
            Ok(None) => failures = 0,
            Err(error) if watch.last_id == 0 || failures >= MAX_RECONNECTS => return Err(error),
            Err(_) => {
                if failures == 0 && !args.json {
                    print::note("the server is gone; waiting for it\n");
                    watch.lines = 0;
                }
                failures += 1;
            }
        }
        tokio::time::sleep(RECONNECT_PAUSE).await;
    }
}

struct Watch<'a> {
    server: &'a Client,
    id: &'a str,
    is_json: bool,
    is_live: bool,
    /// Id of the last event seen.
    last_id: u64,
    /// Lines of the tree on the terminal.
    lines: usize,
}

impl Watch<'_> {
    /// Follows one stream; the plan if it stands still.
    async fn follow(&mut self) -> Result<Option<Value>, Failure> {
        if let Some(plan) = self.look().await? {
            return Ok(Some(plan));
        }
        let place = path(self.id, &format!("/events?after={}", self.last_id));
        let response = self.server.send(self.server.request(Method::GET, &place)).await?;
        let mut events = Events::new(self.server, response);
        while let Some(event) = events.next().await? {
            self.last_id = event.id.parse().unwrap_or(self.last_id);
            if self.is_json {
                print::line(&pretty::compact(&event.data));
            } else if !self.is_live {
                print::line(&line(&event.kind, &event.data));
            }
            let may_stop = [
                "planning:plan:complete",
                "planning:plan:failed",
                "planning:plan:cancelled",
                "planning:paused",
            ];
            let is_last = may_stop.contains(&event.kind.as_str());
            if (self.is_live || is_last)
                && let Some(plan) = self.look().await?
                && is_last
            {
                return Ok(Some(plan));
            }
        }
        Ok(None)
    }

    /// Draws the plan; gives it if it stands still and all its events were seen.
    async fn look(&mut self) -> Result<Option<Value>, Failure> {
        let plan: Value = self.server.get(&path(self.id, "")).await?;
        if self.is_live {
            let tree = tree(&plan);
            if self.lines > 0 {
                print::data(format!("\x1b[{}A\x1b[J", self.lines).as_bytes());
            }
            print::data(tree.as_bytes());
            self.lines = tree.lines().count();
        }
        let status = plan["status"].as_str().unwrap_or_default();
        let is_still = !matches!(status, "pending" | "in-progress");
        // Of a plan that ended before, the events are shown first.
        Ok(is_still.then_some(plan).filter(|_| self.is_live || self.last_id > 0))
    }

    fn end(&self, plan: &Value) -> Result<(), Failure> {
        let reason = field(plan, "reason");
        let hint = format!("ringfence plan show {}", self.id);
        match plan["status"].as_str().unwrap_or_default() {
            "completed" => Ok(()),
            "paused" => Err(Failure::new(format!("the plan is paused: {reason}"))
                .code(exit::HELD)
                .hint(hint)),
            status => Err(Failure::new(format!("the plan is {}: {reason}", plain(status)))
                .code(exit::FAILED)
                .hint(hint)),
        }
    }
}

/// An event as a line.
fn line(kind: &str, data: &str) -> String {
    let data: Value = serde_json::from_str(data).unwrap_or_default();
    let payload = &data["payload"];
    let name = plain(kind.strip_prefix("planning:").unwrap_or(kind));
    let step = field(payload, "step");
    let detail = match payload["error"]["message"].as_str().or(payload["reason"].as_str()) {
        Some(text) => format!(": {}", plain(text)),
        None => String::new(),
    };
    let call = match (kind, payload["call"].as_str()) {
        ("planning:awaiting_approval", Some(call)) => {
            format!(" (ringfence approve {})", plain(call))
        }
        _ => String::new(),
    };
    format!("{name} {step}{detail}{call}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_each_step_below_those_before_it() {
        let plan = json!({"status": "in-progress", "goal": "g", "steps": [
            {"id": "b", "type": "command", "status": "failed", "dependsOn": ["a"], "attempt": 2,
             "calls": [], "error": {"message": "exit 1"}},
            {"id": "a", "type": "tool", "status": "completed", "dependsOn": [], "attempt": 1, "calls": []},
        ]});
        let expected =
            "in-progress g\n    x b command: failed, attempt 2, exit 1\n  + a tool: completed\n";
        assert_eq!(tree(&plan), expected);
        assert!(graph(&plan).contains("\"a\" -> \"b\";"));
    }
}
