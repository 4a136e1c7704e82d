//! Approving and denying, after showing exactly what would run.

use std::{
    collections::BTreeMap,
    io::{IsTerminal as _, stdin},
    process::ExitCode,
};

use reqwest::Method;
use ringfence_types::Predicate;
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use super::{Hold, conditions, read, show};
use crate::{
    call::arguments::{self, Word},
    cli::{ApproveArgs, DenyArgs},
    client::{Client, escaped, pretty, short_id::Kind},
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
        let mut answer = Answer { fields: body(args)?, edited_args: None };
        let id = client.whole_id(Kind::HeldCall, &args.id).await?;
        let (_, hold) = read(&client, &id).await?;
        answer.fields["shown"] = json!(hold.shown);
        answer.edited_args = edits(&client, &hold, args).await?;
        agree(&hold, &answer, args)?;
        resolve(&client, &id, &answer, args.client.json).await
    });
    told.map_err(|failure| failure.in_json(args.client.json))?;
    Ok(ExitCode::from(exit::DONE))
}

pub(crate) fn deny(args: &DenyArgs) -> Result<ExitCode, Failure> {
    let told = runtime()?.block_on(async {
        let client = Client::find(&args.client)?;
        let id = client.whole_id(Kind::HeldCall, &args.id).await?;
        let action = if args.discard { "discard" } else { "deny" };
        let answer = Answer::plain(json!({"action": action, "reason": args.reason}));
        resolve(&client, &id, &answer, args.client.json).await
    });
    told.map_err(|failure| failure.in_json(args.client.json))?;
    Ok(ExitCode::from(exit::DONE))
}

/// Asks policy again.
pub(super) async fn reevaluate(client: &Client, id: &str, is_json: bool) -> Result<(), Failure> {
    resolve(client, id, &Answer::plain(json!({"action": "reevaluate"})), is_json).await
}

/// Resolution of a hold.
#[derive(Debug, Serialize)]
struct Answer {
    #[serde(flatten)]
    fields: Value,
    /// As text: arguments without edits keep every digit.
    #[serde(skip_serializing_if = "Option::is_none")]
    edited_args: Option<Edited>,
}

/// Arguments by name.
type Edited = BTreeMap<String, Box<RawValue>>;

impl Answer {
    fn plain(fields: Value) -> Self {
        Self { fields, edited_args: None }
    }
}

fn body(args: &ApproveArgs) -> Result<Value, Failure> {
    let mut problems = Problems::default();
    let conditions: Vec<_> =
        args.conditions.iter().filter_map(|text| problems.keep(conditions::parse(text))).collect();
    problems.hint("write conditions as --where '/to suffix @example.com'");
    problems.none()?;
    let conditions = (!conditions.is_empty() || args.any_arguments).then_some(conditions);
    // Sent explicitly, so that the user sees them.
    let (lasts, uses) = match args.scope.as_deref() {
        Some("session") => (Some("8h"), Some(100)),
        _ => (None, None),
    };
    Ok(json!({
        "action": "approve",
        "reason": args.reason,
        "scope": args.scope,
        "where": conditions,
        "expires_in": args.lasts.as_deref().or(lasts),
        "uses": args.uses.or(uses),
    }))
}

/// All arguments with the edits, if there are any. Values are typed by the tool's schema, as in
/// `call`.
async fn edits(
    client: &Client,
    hold: &Hold,
    args: &ApproveArgs,
) -> Result<Option<Edited>, Failure> {
    if args.edit.is_empty() {
        return Ok(None);
    }
    let mut problems = Problems::default();
    let words = args.edit.iter().filter_map(|word| problems.keep(arguments::split(word)));
    let words: Vec<_> = words.collect();
    problems.hint("write --edit name=value or --edit name:=JSON");
    problems.none()?;
    let schema = arguments::schema(client, &words, &hold.tool, Some(&hold.version)).await?;
    edited(hold, &words, &schema).map(Some)
}

fn edited(hold: &Hold, words: &[Word], schema: &Value) -> Result<Edited, Failure> {
    let unreadable = |error| Failure::because("the held arguments are not understood", &error);
    let mut edited: Edited = serde_json::from_str(hold.args.get()).map_err(unreadable)?;
    let mut problems = Problems::default();
    for word in words {
        if let Some(value) = problems.keep(arguments::json(word, schema)) {
            edited.insert(word.name.clone(), value);
        }
    }
    problems.none()?;
    Ok(edited)
}

/// Shows what would run and asks for confirmation; `--yes` confirms without a terminal.
fn agree(hold: &Hold, answer: &Answer, args: &ApproveArgs) -> Result<(), Failure> {
    if args.yes {
        return Ok(());
    }
    print::note(&show::hold(hold));
    if let Some(edited) = &answer.edited_args {
        print::note(&format!("with these arguments instead\n{}\n", indented(edited)?));
    }
    print::note(&bounds(&answer.fields));
    if !stdin().is_terminal() {
        let failure = Failure::new("cannot ask for confirmation: standard input is not a terminal");
        return Err(failure.hint("check what is shown above, then add --yes"));
    }
    print::note("approve? [y/N] ");
    let mut answer = String::new();
    let read = stdin().read_line(&mut answer);
    read.map_err(|error| Failure::because("read the answer", &error))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new("not approved; the call stays held")),
    }
}

fn indented(edited: &Edited) -> Result<String, Failure> {
    let text = pretty::pretty(&written(edited)?);
    let lines: Vec<_> = text.lines().map(|line| format!("  {}", plain(line))).collect();
    Ok(lines.join("\n"))
}

fn written(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value)
        .map_err(|error| Failure::because("cannot write the request", &error))
}

/// The bounds of the approval as a sentence.
fn bounds(body: &Value) -> String {
    let text = |name: &str| plain(body[name].as_str().unwrap_or_default());
    let calls = match text("scope").as_str() {
        "once" | "" => return "approving lets exactly this call run, once\n".to_owned(),
        "session" => "calls of this session by the same key",
        _ => "calls of this tool by the same key, in any session",
    };
    let predicate = serde_json::from_value::<Predicate>(body["where"].clone());
    let with = match &predicate {
        _ if body["where"].is_null() => "exactly the arguments shown".to_owned(),
        Ok(predicate) => plain(&predicate.to_string()),
        Err(invalid) => format!("conditions that are none ({})", plain(&invalid.to_string())),
    };
    let often = body["uses"].as_u64().map_or("so many".to_owned(), |uses| uses.to_string());
    format!("approving lets {often} {calls} run, with {with}, for {}\n", text("expires_in"))
}

async fn resolve(client: &Client, id: &str, answer: &Answer, is_json: bool) -> Result<(), Failure> {
    let request = client.request(Method::POST, &format!("/v1/holds/{}/resolve", escaped(id)));
    let request = request.header("content-type", "application/json").body(written(answer)?);
    let text = client.text(client.send(request).await?).await?;
    if is_json {
        print::line(&pretty::compact(&text));
        return Ok(());
    }
    let call: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::because("the server's answer is not understood", &error))?;
    print::note(&format!("{} {}\n", plain(id), became(&answer.fields, &call)));
    Ok(())
}

/// State of the call after the resolution, as text.
fn became(asked: &Value, call: &Value) -> String {
    let state = call["state"].as_str().unwrap_or("unknown");
    let votes = call["hold"]["votes"].as_array().map_or(0, Vec::len);
    let needed = call["hold"]["approvals_needed"].as_u64().unwrap_or(0);
    match (asked["action"].as_str(), state) {
        (Some("approve"), "held") if (votes as u64) < needed => {
            format!("approved by {votes} of {needed}; it waits for the others")
        }
        (Some("approve"), "held") => "approved; it runs now".to_owned(),
        (Some("approve"), "denied") => format!("is denied all the same: {}", why(call)),
        (Some("reevaluate"), "held") => "judged again".to_owned(),
        (_, state) => format!("is {state}"),
    }
}

fn why(call: &Value) -> String {
    let reasons = call["reasons"].as_array().into_iter().flatten();
    let messages: Vec<_> = reasons.filter_map(|reason| reason["message"].as_str()).collect();
    plain(&messages.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_without_edits_keep_every_digit() {
        let text = r#"{"to":"a","n":12345678901234567890123.50,"deep":{"x":1e400}}"#;
        let mut hold = show::tests::sample();
        hold.args = RawValue::from_string(text.to_owned()).unwrap();
        let schema = json!({"properties": {"n": {"type": "number"}, "to": {"type": "string"}}});
        let words = |words: &[&str]| -> Vec<Word> {
            words.iter().map(|word| arguments::split(word).unwrap()).collect()
        };
        let edited = |texts: &[&str]| edited(&hold, &words(texts), &schema);
        assert!(edited(&["n=much"]).unwrap_err().text().contains("`much` is not a number"));
        let edited = edited(&["to=b", "n=0.10", "to:=\"c\""]).unwrap();
        let answer = Answer { fields: json!({"action": "approve"}), edited_args: Some(edited) };
        let expected =
            r#"{"action":"approve","edited_args":{"deep":{"x":1e400},"n":0.10,"to":"c"}}"#;
        assert_eq!(written(&answer).unwrap(), expected);
    }

    #[test]
    fn the_bounds_of_a_yes_are_shown_whole() {
        let of = |body: Value| bounds(&body);
        let once = of(json!({"action": "approve", "scope": null}));
        assert_eq!(once, "approving lets exactly this call run, once\n");
        let wide = json!({"scope": "rule", "where": [], "uses": 9, "expires_in": "1h"});
        let expected = "approving lets 9 calls of this tool by the same key, in any session run, \
                        with any arguments, for 1h\n";
        assert_eq!(of(wide), expected);
        let to = json!([{"path": "/to", "suffix": "@ours.example"}]);
        let session = json!({"scope": "session", "where": to, "uses": 100, "expires_in": "8h"});
        let expected = "approving lets 100 calls of this session by the same key run, \
                        with /to ends with \"@ours.example\", for 8h\n";
        assert_eq!(of(session), expected);
    }

    #[test]
    fn approving_a_denied_call_does_not_report_that_it_runs() {
        let approve = json!({"action": "approve"});
        let denied = json!({"state": "denied", "reasons": [{"rule": "r", "message": "no"}]});
        assert_eq!(became(&approve, &denied), "is denied all the same: no");
        let held = json!({"state": "held", "hold": {"votes": [{}], "approvals_needed": 1}});
        assert_eq!(became(&approve, &held), "approved; it runs now");
    }
}
