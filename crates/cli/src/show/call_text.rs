//! Text of a call for people.

use std::{fmt::Write as _, time::Duration};

use ringfence_types::{Bytes, Limits, Receipt, Usage};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{Shown, value};
use crate::{age, client::pretty, style::Tone, table::plain};

/// Values that are printed as the server wrote them, digit by digit.
#[derive(Debug, Deserialize)]
struct Exact {
    args: Box<RawValue>,
    asked_args: Option<Box<RawValue>>,
    result: Option<Box<RawValue>>,
}

/// Everything, a line or a block for each.
pub(super) fn of(shown: &Shown) -> String {
    let call = value(&shown.call);
    let exact: Option<Exact> = serde_json::from_str(shown.call.get()).ok();
    let receipt: Option<Receipt> =
        shown.receipt.as_ref().and_then(|receipt| serde_json::from_str(receipt.get()).ok());
    let mut page = Page(String::new());
    page.head(&call);
    if let Some(exact) = &exact {
        page.block("arguments", exact.args.get());
        if let Some(asked) = &exact.asked_args {
            page.block("asked for with", asked.get());
        }
    }
    page.decision(&call);
    page.hold(&call["hold"]);
    page.timeline(&call, &shown.events);
    if let Some(result) = exact.as_ref().and_then(|exact| exact.result.as_ref()) {
        page.block("result", result.get());
    }
    page.error(&call["error"]);
    page.output(&call);
    page.sandbox(&call, receipt.as_ref());
    page.receipt(&call, receipt.as_ref());
    page.0
}

struct Page(String);

impl Page {
    /// Adds a name and a value.
    fn line(&mut self, name: &str, value: &str) {
        let _ = writeln!(self.0, "{name:<10} {}", plain(value));
    }

    /// Adds a line for each text, the name before the first.
    fn lines(&mut self, name: &str, values: &[String]) {
        for (index, value) in values.iter().enumerate() {
            self.line(if index == 0 { name } else { "" }, value);
        }
    }

    fn optional(&mut self, name: &str, value: &Value) {
        if let Some(value) = value.as_str() {
            self.line(name, value);
        }
    }

    /// Adds JSON, indented under its title.
    fn block(&mut self, title: &str, json: &str) {
        let _ = writeln!(self.0, "{title}");
        for line in pretty::pretty(json).lines() {
            let _ = writeln!(self.0, "  {}", plain(line));
        }
    }

    fn head(&mut self, call: &Value) {
        self.line("call", word(&call["id"]));
        let state = word(&call["state"]);
        let tone = Tone::of_state(state, !call["error"].is_null());
        let _ = writeln!(self.0, "{:<10} {}", "state", tone.on_stdout(&plain(state)));
        self.line("tool", &format!("{} {}", word(&call["tool"]), word(&call["version"])));
        self.line("", word(&call["digest"]));
        self.optional("session", &call["session_id"]);
        self.optional("persona", &call["persona_id"]);
        if call["metadata"].as_object().is_some_and(|metadata| !metadata.is_empty()) {
            self.line("metadata", &call["metadata"].to_string());
        }
    }

    fn decision(&mut self, call: &Value) {
        let decision = &call["decision"];
        if decision.is_null() {
            return self.line("decision", "none yet");
        }
        let (verdict, engine) = (word(&decision["verdict"]), word(&decision["engine"]));
        self.line(
            "decision",
            &format!("{verdict} by {engine}, policy {}", word(&decision["policy"])),
        );
        for reason in list(&decision["reasons"]) {
            let (rule, message) = (word(&reason["rule"]), word(&reason["message"]));
            self.line("", &format!("rule {rule}: {message}"));
        }
        if !decision["obligations"].is_null() {
            self.line("", &format!("obligations {}", decision["obligations"]));
        }
        self.optional("approval", &decision["approval"]);
        if decision["fail_open"] == true {
            self.line("", "policy gave no answer; the tenant is set to fail open");
        }
    }

    fn hold(&mut self, hold: &Value) {
        if hold.is_null() {
            return;
        }
        let votes = list(&hold["votes"]).len();
        self.line("held", &format!("approved by {votes} of {}", hold["approvals_needed"]));
        let expires = word(&hold["expires_at"]);
        self.line("expires", &format!("{expires} (in {})", age::until(expires)));
    }

    /// Adds the events with their times. Only ended calls have them.
    fn timeline(&mut self, call: &Value, events: &[Box<RawValue>]) {
        let mut moments: Vec<(String, String)> = Vec::new();
        for event in events.iter().map(|event| value(event)) {
            let kind = word(&event["type"]).trim_start_matches("call.").to_owned();
            moments.push((word(&event["at"]).to_owned(), kind));
        }
        if moments.is_empty() {
            let known = [
                (&call["accepted_at"], "accepted"),
                (&call["hold"]["since"], "held"),
                (&call["changed_at"], word(&call["state"])),
            ];
            let known = known.into_iter().filter_map(|(at, what)| Some((at.as_str()?, what)));
            moments.extend(known.map(|(at, what)| (at.to_owned(), what.to_owned())));
            moments.dedup_by(|one, other| one.1 == other.1);
        }
        let _ = writeln!(self.0, "timeline");
        for (at, what) in &moments {
            let _ = writeln!(self.0, "  {}  {} ({})", plain(at), plain(what), age::ago(at));
        }
        if let (Some(ran), Some(total)) =
            (call["timings"]["duration_ms"].as_f64(), call["timings"]["total_ms"].as_f64())
        {
            self.line("took", &format!("{ran:.1} ms running, {total:.1} ms from acceptance"));
        }
        if let Some(from) = call["memoised"]["call_id"].as_str() {
            self.line("memoised", &format!("nothing ran: the result is that of call {from}"));
        }
    }

    fn error(&mut self, error: &Value) {
        if error.is_null() {
            return;
        }
        self.line("error", &format!("{}: {}", word(&error["code"]), word(&error["message"])));
        let details = &error["details"];
        for line in details["traceback"].as_str().into_iter().flat_map(str::lines) {
            let _ = writeln!(self.0, "  {}", plain(line));
        }
        self.optional("hint", &details["hint"]);
    }

    fn output(&mut self, call: &Value) {
        let mut told = Vec::new();
        for name in ["stdout", "stderr"] {
            let Some(length) = call[name]["length"].as_u64() else { continue };
            let dropped = call[name]["truncated"]["dropped"].as_u64().map(Bytes);
            let dropped = dropped.map(|bytes| format!(", {bytes} of its middle not kept"));
            told.push(format!("{name} {}{}", Bytes(length), dropped.unwrap_or_default()));
        }
        self.lines("output", &told);
    }

    fn sandbox(&mut self, call: &Value, receipt: Option<&Receipt>) {
        if let Some(usage) = receipt.and_then(|receipt| receipt.usage.as_ref()) {
            let limits = receipt.and_then(|receipt| receipt.limits.as_ref());
            self.lines("used", &used(usage, limits));
        }
        self.optional("isolation", &call["isolation"]);
        let layers = call["layers"].as_object();
        let (mut active, mut absent) = (Vec::new(), Vec::new());
        for (layer, state) in layers.into_iter().flatten() {
            match state["absent"].as_str() {
                Some(why) => absent.push(format!("{layer}: {why}")),
                None => active.push(layer.as_str()),
            }
        }
        for (index, some) in active.chunks(4).enumerate() {
            self.line(if index == 0 { "layers" } else { "" }, &some.join(", "));
        }
        self.lines("missing", &absent);
    }

    fn receipt(&mut self, call: &Value, receipt: Option<&Receipt>) {
        let Some(receipt) = receipt else { return self.line("trace", word(&call["trace_id"])) };
        self.line("receipt", &format!("arguments {}", receipt.args));
        if let Some(result) = &receipt.result {
            self.line("", &format!("result {result}"));
        }
        self.line("", &format!("prove it: ringfence export {}", receipt.call));
        self.line("trace", word(&call["trace_id"]));
    }
}

/// Usage, with the limits where they are known.
fn used(usage: &Usage, limits: Option<&Limits>) -> Vec<String> {
    let of = |limit: Option<String>| limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
    let cpu = usage.cpu_user + usage.cpu_system;
    let mut lines = vec![
        format!("time {}{}", time(usage.wall), of(limits.map(|limits| time(limits.wall)))),
        format!("cpu {}{}", time(cpu), of(limits.and_then(|limits| limits.cpu_time).map(time))),
    ];
    if let Some(peak) = usage.memory_peak {
        lines.push(format!("memory {peak}{}", of(limits.map(|limits| limits.memory.to_string()))));
    }
    let processes = of(limits.map(|limits| limits.processes.to_string()));
    lines.push(format!("processes {}{processes}", usage.processes));
    lines.push(format!("read {}, written {}", usage.io_read, usage.io_written));
    lines
}

fn time(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{:.1} ms", duration.as_secs_f64() * 1e3),
        _ => format!("{:.1} s", duration.as_secs_f64()),
    }
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
