//! Saying yes or no, after seeing exactly to what.

use std::{
    io::{IsTerminal as _, stdin},
    process::ExitCode,
};

use serde_json::{Map, Value, json};

use super::{Hold, conditions, read, show};
use crate::{
    cli::{ApproveArgs, DenyArgs},
    client::{Client, escaped, pretty},
    exit,
    failure::Failure,
    print,
    problems::Problems,
    run::runtime,
    table::plain,
};

pub(crate) fn approve(args: &ApproveArgs) -> Result<ExitCode, Failure> {
    let told = runtime()?.block_on(async {
        let client = Client::find(&args.client)?;
        let body = body(args)?;
        let (_, hold) = read(&client, &args.id).await?;
        let body = with_edits(body, &hold, args)?;
        agree(&hold, &body, args)?;
        resolve(&client, &args.id, &body, args.client.json).await
    });
    told.map_err(|failure| failure.in_json(args.client.json))?;
    Ok(ExitCode::from(exit::DONE))
}

pub(crate) fn deny(args: &DenyArgs) -> Result<ExitCode, Failure> {
    let told = runtime()?.block_on(async {
        let client = Client::find(&args.client)?;
        let action = if args.discard { "discard" } else { "deny" };
        let body = json!({"action": action, "reason": args.reason});
        resolve(&client, &args.id, &body, args.client.json).await
    });
    told.map_err(|failure| failure.in_json(args.client.json))?;
    Ok(ExitCode::from(exit::DONE))
}

/// Has policy asked again.
pub(super) async fn reevaluate(client: &Client, id: &str, is_json: bool) -> Result<(), Failure> {
    resolve(client, id, &json!({"action": "reevaluate"}), is_json).await
}

fn body(args: &ApproveArgs) -> Result<Value, Failure> {
    let mut problems = Problems::default();
    let conditions: Vec<_> =
        args.conditions.iter().filter_map(|text| problems.keep(conditions::parse(text))).collect();
    problems.hint("write conditions as --where '/to suffix @example.com'");
    problems.none()?;
    let conditions = (!conditions.is_empty() || args.any_arguments).then_some(conditions);
    Ok(json!({
        "action": "approve",
        "reason": args.reason,
        "scope": args.scope,
        "where": conditions,
        "expires_in": args.lasts,
        "uses": args.uses,
    }))
}

/// The whole arguments if some are to be others, and what was shown.
fn with_edits(mut body: Value, hold: &Hold, args: &ApproveArgs) -> Result<Value, Failure> {
    body["shown"] = json!(hold.shown);
    if args.edit.is_empty() {
        return Ok(body);
    }
    let unreadable = |error| Failure::because("the held arguments are not understood", &error);
    let mut edited: Map<String, Value> =
        serde_json::from_str(hold.args.get()).map_err(unreadable)?;
    let mut problems = Problems::default();
    for word in &args.edit {
        if let Some((name, value)) = problems.keep(edit(word)) {
            edited.insert(name, value);
        }
    }
    problems.hint("write --edit name=text or --edit name:=JSON");
    problems.none()?;
    body["edited_args"] = Value::Object(edited);
    Ok(body)
}

fn edit(word: &str) -> Result<(String, Value), String> {
    let (name, value) =
        word.split_once('=').ok_or_else(|| format!("`{word}` is not name=value"))?;
    match name.strip_suffix(':') {
        Some(name) => serde_json::from_str(value)
            .map(|value| (name.to_owned(), value))
            .map_err(|error| format!("{name}: {error}")),
        None => Ok((name.to_owned(), json!(value))),
    }
}

/// Shows what would happen and asks; `--yes` is the answer where nobody can be asked.
fn agree(hold: &Hold, body: &Value, args: &ApproveArgs) -> Result<(), Failure> {
    if args.yes {
        return Ok(());
    }
    print::note(&show::hold(hold));
    if let Some(edited) = body.get("edited_args") {
        print::note(&format!("with these arguments instead\n{}\n", indented(edited)));
    }
    print::note(&bounds(body));
    if !stdin().is_terminal() {
        let failure = Failure::new("nobody can be asked: standard input is no terminal");
        return Err(failure.hint("look at what is shown above, then add --yes"));
    }
    print::note("approve? [y/N] ");
    let mut answer = String::new();
    let read = stdin().read_line(&mut answer);
    read.map_err(|error| Failure::because("read the answer", &error))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new("not approved; the call waits as before")),
    }
}

fn indented(json: &Value) -> String {
    let text = pretty::pretty(&json.to_string());
    let lines: Vec<_> = text.lines().map(|line| format!("  {}", plain(line))).collect();
    lines.join("\n")
}

fn bounds(body: &Value) -> String {
    let scope = body["scope"].as_str().unwrap_or("once");
    let mut text = match scope {
        "once" => "approving lets exactly this call run, once".to_owned(),
        "session" => "approving lets calls of this session by the same key run".to_owned(),
        _ => "approving lets calls of this tool by the same key run".to_owned(),
    };
    for (field, words) in [("where", " where "), ("uses", ", so many: "), ("expires_in", ", for ")]
    {
        if !body[field].is_null() {
            let value = body[field].as_str().map_or(body[field].to_string(), str::to_owned);
            text += &format!("{words}{}", plain(&value));
        }
    }
    text + "\n"
}

async fn resolve(client: &Client, id: &str, body: &Value, is_json: bool) -> Result<(), Failure> {
    let call = client.post(&format!("/v1/holds/{}/resolve", escaped(id)), body).await?;
    if is_json {
        print::line(&call.to_string());
        return Ok(());
    }
    let state = call["state"].as_str().unwrap_or("unknown");
    let votes = call["hold"]["votes"].as_array().map_or(0, Vec::len);
    let needed = call["hold"]["approvals_needed"].as_u64().unwrap_or(0);
    let words = match (body["action"].as_str(), state) {
        (Some("approve"), "held") if (votes as u64) < needed => {
            format!("approved by {votes} of {needed}; it waits for the others")
        }
        (Some("approve"), "held") => "approved; it runs now".to_owned(),
        (Some("reevaluate"), "held") => "judged again".to_owned(),
        (_, state) => format!("is {state}"),
    };
    print::note(&format!("{} {words}\n", plain(id)));
    Ok(())
}
