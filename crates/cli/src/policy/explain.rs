//! `ringfence policy explain`: explains the decision about a call.

use std::{fmt::Write, process::ExitCode};

use serde_json::{Value, value::RawValue};

use crate::{
    cli::ClientArgs,
    client::{Client, escaped, pretty, short_id::Kind},
    exit,
    failure::Failure,
    print,
    table::plain,
};

pub(super) async fn explain(id: &str, args: &ClientArgs) -> Result<ExitCode, Failure> {
    let client = Client::find(args)?;
    let id = client.whole_id(Kind::Call, id).await?;
    let answer: Box<RawValue> =
        client.get(&format!("/v1/calls/{}/explanation", escaped(&id))).await?;
    match args.json {
        true => print::line(&pretty::compact(answer.get())),
        false => {
            let told: Value = serde_json::from_str(answer.get()).map_err(|error| {
                Failure::because("the server's answer is not understood", &error)
            })?;
            print::data(text(&told).as_bytes());
        }
    }
    Ok(ExitCode::from(exit::DONE))
}

fn word(value: &Value) -> String {
    plain(value.as_str().unwrap_or("-"))
}

fn text(told: &Value) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{} at {} under {}",
        word(&told["verdict"]),
        word(&told["decided_at"]),
        word(&told["policy"])
    );
    let parts = told["parts"].as_array().map_or(&[][..], Vec::as_slice);
    let is_one = parts.len() == 1;
    if told["policy"] != told["explained_by"] {
        let _ = write!(text, "the rules in force are others, {}", word(&told["explained_by"]));
        let _ = match is_one {
            true => writeln!(text, ": they say {}", said(&parts[0])),
            false => writeln!(text),
        };
    }
    for part in parts {
        if !is_one {
            add_engine(&mut text, part);
        }
        add_part(&mut text, part);
    }
    text
}

fn said(part: &Value) -> String {
    part["says"].as_str().map_or("nothing".to_owned(), plain)
}

/// Adds the name and the answer of an engine.
fn add_engine(text: &mut String, part: &Value) {
    let (engine, policy) = (word(&part["engine"]), word(&part["policy"]));
    let _ = match part["explained"].as_bool() {
        Some(true) => writeln!(text, "\nengine {engine} under {policy} says {}", said(part)),
        _ => writeln!(
            text,
            "\nengine {engine}: its rules are elsewhere and cannot be explained here"
        ),
    };
}

fn add_part(text: &mut String, part: &Value) {
    for reason in part["reasons"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "\n{}: {}", word(&reason["rule"]), word(&reason["message"]));
        for place in reason["places"].as_array().into_iter().flatten() {
            let _ = writeln!(text, "  {}:{}", word(&place["file"]), place["line"]);
        }
        for read in reason["reads"].as_array().into_iter().flatten() {
            let _ = writeln!(text, "  {} is {}", word(&read["path"]), value(&read["value"]));
        }
    }
    add_change(text, &part["change"]);
}

/// A value as JSON on one line, cut to a bounded length.
fn value(value: &Value) -> String {
    let text = value.to_string();
    match text.chars().count() > 200 {
        true => plain(&format!("{}…", text.chars().take(200).collect::<String>())),
        false => plain(&text),
    }
}

fn add_change(text: &mut String, change: &Value) {
    let tried = &change["tried"];
    match change["found"].as_bool() {
        Some(true) => {
            let _ = writeln!(
                text,
                "\nthe smallest change found that would be allowed ({tried} tried):"
            );
            for one in change["changes"].as_array().into_iter().flatten() {
                let (from, to) = (value(&one["from"]), value(&one["to"]));
                let _ = writeln!(text, "  {} from {from} to {to}", word(&one["path"]));
            }
        }
        Some(false) => {
            let _ = writeln!(text, "\nnone of {tried} changes that were tried would be allowed");
        }
        None => {}
    }
}
