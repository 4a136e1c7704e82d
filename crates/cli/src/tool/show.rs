//! Tools and their versions as text.

use std::fmt::Write;

use serde_json::Value;

use crate::{
    age,
    style::Tone,
    table::{Table, cut, plain},
};

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or("-")
}

pub(super) fn table(tools: &[Value]) -> String {
    let mut table = Table::new(["NAME", "VERSION", "STATUS", "FROM", "DIGEST"]);
    for tool in tools {
        let status = text(tool, "status").to_owned();
        let tone = tone(&status);
        let name = cut(text(tool, "name"), 48);
        let row =
            [name, text(tool, "version").into(), status, text(tool, "origin").into(), short(tool)];
        table.toned_row(row, 2, tone);
        if let Some(why) = tool["why"].as_str().filter(|why| !why.is_empty()) {
            table.note(&plain(why));
        }
    }
    table.fitted()
}

fn tone(status: &str) -> Tone {
    match status {
        "active" => Tone::Good,
        "revoked" | "quarantined" => Tone::Bad,
        _ => Tone::Waiting,
    }
}

fn short(tool: &Value) -> String {
    text(tool, "digest").chars().take(19).collect()
}

/// One version after a change, or several.
pub(super) fn changed(found: &Value) -> String {
    match found["tools"].as_array() {
        Some(tools) => table(tools),
        None => table(std::slice::from_ref(found)),
    }
}

/// All versions of a tool: request against grants, and every change.
pub(super) fn versions(found: &Value) -> String {
    let mut out = String::new();
    for version in found["versions"].as_array().into_iter().flatten() {
        one(&mut out, version);
    }
    let history = found["history"].as_array().cloned().unwrap_or_default();
    if !history.is_empty() {
        let mut table = Table::new(["WHEN", "EVENT", "STATUS", "BY", "WHY"]);
        for change in &history {
            let status = match change["from"].as_str() {
                Some(from) => format!("{from} -> {}", text(change, "to")),
                None => text(change, "to").to_owned(),
            };
            let by = change["by"].as_str().map_or("server", |by| by.get(..8).unwrap_or(by));
            table.row([
                age::ago(text(change, "at")),
                text(change, "event").to_owned(),
                status,
                by.to_owned(),
                plain(text(change, "why")),
            ]);
        }
        out += &table.fitted();
    }
    out
}

fn one(out: &mut String, version: &Value) {
    let (name, number) = (plain(text(version, "name")), plain(text(version, "version")));
    let _ = writeln!(out, "{name} {number}  {}", text(version, "status"));
    if let Some(description) = version["description"].as_str() {
        let _ = writeln!(out, "{}", plain(description));
    }
    let flags = version["safety_flags"].as_array().into_iter().flatten();
    let flags: Vec<_> = flags.filter_map(Value::as_str).collect();
    let lines = [
        ("digest", text(version, "digest").to_owned()),
        ("from", format!("{} {}", text(version, "origin"), plain(text(version, "source")))),
        ("runs", plain(text(version, "runs"))),
        ("flags", flags.join(" ")),
    ];
    for (label, value) in lines.iter().filter(|(_, value)| !value.is_empty() && value != "-") {
        let _ = writeln!(out, "  {label:<8}{value}");
    }
    for risk in version["risks"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(out, "  risk    {}", plain(risk));
    }
    let (asks, grants) = (&version["asks"], &version["grants"]);
    if let Some(asked) = asks.as_object() {
        let mut table = Table::new(["  PERMISSION", "ASKED", "GRANTED"]);
        for (permission, value) in asked {
            let granted = match grants {
                Value::Null => "-".to_owned(),
                grants => shown(&grants[permission]),
            };
            table.row([format!("  {permission}"), shown(value), granted]);
        }
        if !asked.is_empty() {
            *out += &table.fitted();
        }
    }
    let _ = writeln!(out);
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().filter_map(Value::as_str).map(plain).collect();
            items.join(", ")
        }
        other => other.to_string(),
    }
}

/// Differences, in the form of a patch.
pub(super) fn differences(found: &Value) -> String {
    let mut out = String::new();
    for (sign, side) in [("---", "before"), ("+++", "after")] {
        let tool = &found[side];
        let (name, version) = (plain(text(tool, "name")), plain(text(tool, "version")));
        let _ = writeln!(out, "{sign} {name} {version} {}", text(tool, "digest"));
    }
    for change in found["changes"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "@ {}", plain(text(change, "path")));
        for (sign, side) in [("-", "before"), ("+", "after")] {
            if let Some(value) = change[side].as_str() {
                let _ = writeln!(out, "{sign} {}", plain(value));
            }
        }
    }
    out
}

/// Tools of an import.
pub(super) fn imported(found: &Value) -> String {
    table(found["proposed"].as_array().map(Vec::as_slice).unwrap_or_default())
}

/// Words about what an import left out, and what to do next.
pub(super) fn left_out(found: &Value) -> String {
    let mut out = String::new();
    for skipped in found["skipped"].as_array().into_iter().flatten() {
        let (operation, problem) = (text(skipped, "operation"), text(skipped, "problem"));
        let _ = writeln!(out, "skipped: {}: {}", plain(operation), plain(problem));
    }
    for note in found["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(out, "note: {}", plain(note));
    }
    let proposed = found["proposed"].as_array().into_iter().flatten();
    let waiting = proposed.filter(|tool| text(tool, "status") == "proposed").count();
    if waiting > 0 {
        let _ = writeln!(
            out,
            "{waiting} wait for an approval: `ringfence tool show NAME`, then `approve`"
        );
    }
    out
}

/// Tools of a search.
pub(super) fn found(tools: &[Value]) -> String {
    let mut table = Table::new(["NAME", "VERSION", "DESCRIPTION"]);
    for tool in tools {
        let description = plain(text(tool, "description").lines().next().unwrap_or_default());
        table.row([cut(text(tool, "name"), 48), text(tool, "version").into(), description]);
    }
    table.fitted()
}

/// Data that a tool keeps between its calls.
pub(super) fn data(found: &Value) -> String {
    let mut table = Table::new(["KIND", "NAME", "BYTES", "CHANGED"]);
    for (kind, list) in [("state", "state"), ("file", "files")] {
        for datum in found[list].as_array().into_iter().flatten() {
            let (name, changed) = (cut(text(datum, "name"), 60), text(datum, "changed_at").into());
            table.row([kind.to_owned(), name, datum["size"].to_string(), changed]);
        }
    }
    table.fitted()
}

/// Results of the examples of a tool.
pub(super) fn tested(found: &Value) -> String {
    let mut out = String::new();
    for example in found["examples"].as_array().into_iter().flatten() {
        let (number, took) = (&example["example"], example["duration_ms"].as_f64());
        let outcome = text(example, "outcome");
        let _ = writeln!(out, "{outcome}  example {number} ({:.1} ms)", took.unwrap_or_default());
        for problem in example["problems"].as_array().into_iter().flatten() {
            let _ = writeln!(out, "        {}", plain(problem.as_str().unwrap_or_default()));
        }
    }
    let _ = writeln!(out, "{} passed, {} failed", found["passed"], found["failed"]);
    out
}
