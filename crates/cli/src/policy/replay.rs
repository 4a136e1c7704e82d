//! `ringfence policy replay`: evaluates recorded decisions by proposed rules.
//!
//! The server evaluates for a few seconds per request; the results are added up here.

use std::{collections::BTreeMap, fmt::Write, path::Path, process::ExitCode, time::Instant};

use ringfence_types::{Clock, Timestamp, parse_duration};
use serde::Deserialize;
use serde_json::{Value, json};

use super::read;
use crate::{
    cli::ClientArgs,
    client::Client,
    exit,
    failure::Failure,
    print,
    serve::SystemClock,
    table::{Table, plain},
};

/// Filter of the decisions.
pub(super) struct Asked<'a> {
    pub(super) folder: &'a Path,
    pub(super) since: Option<&'a str>,
    pub(super) until: Option<&'a str>,
    pub(super) tool: Option<&'a str>,
    pub(super) tenant: Option<&'a str>,
    pub(super) limit: usize,
}

type Kinds = BTreeMap<String, u64>;

/// Answer of the server about a part of the history.
#[derive(Debug, Deserialize)]
struct Part {
    policy: String,
    decisions: u64,
    redacted: u64,
    unanswered: u64,
    other_obligations: u64,
    flips: Flips,
    calls: Vec<Value>,
    next_cursor: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Flips {
    total: u64,
    kinds: Kinds,
    tools: BTreeMap<String, Kinds>,
    tenants: BTreeMap<String, Kinds>,
    rules: BTreeMap<String, Kinds>,
}

/// Sum of all parts.
#[derive(Debug, Default)]
struct Whole {
    policy: String,
    decisions: u64,
    redacted: u64,
    unanswered: u64,
    other_obligations: u64,
    flips: Flips,
    calls: Vec<Value>,
    seconds: f64,
}

pub(super) async fn replay(asked: &Asked<'_>, args: &ClientArgs) -> Result<ExitCode, Failure> {
    let bundle = read(asked.folder)?;
    let files: BTreeMap<_, _> = bundle.files().collect();
    let mut body = json!({
        "files": files,
        "since": asked.since.map(|text| instant("--since", text)).transpose()?,
        "until": asked.until.map(|text| instant("--until", text)).transpose()?,
        "tool": asked.tool,
        "tenant": asked.tenant,
    });
    let client = Client::find(args)?;
    let (progress, started) = (print::Progress::new(), Instant::now());
    let mut whole = Whole::default();
    loop {
        body["limit"] = json!((asked.limit - whole.calls.len()).max(1));
        let part = client.post("/v1/policy/replay", &body).await?;
        let part: Part = serde_json::from_value(part)
            .map_err(|error| Failure::because("the server's answer is not understood", &error))?;
        body["cursor"] = json!(part.next_cursor);
        let is_last = part.next_cursor.is_none();
        whole.add(part, asked.limit);
        let (done, flips) = (whole.decisions, whole.flips.total);
        progress.show(&format!("{done} decisions judged again, {flips} would flip"));
        if is_last {
            break;
        }
    }
    drop(progress);
    whole.seconds = started.elapsed().as_secs_f64();
    match args.json {
        true => print::line(&whole.json().to_string()),
        false => {
            print::data(whole.text().as_bytes());
            print::note(&whole.rate());
        }
    }
    Ok(ExitCode::from(exit::DONE))
}

/// An instant, or a duration before now.
fn instant(flag: &str, text: &str) -> Result<Timestamp, Failure> {
    if let Ok(instant) = text.parse() {
        return Ok(instant);
    }
    let ago = parse_duration(text).map_err(|_| {
        Failure::new(format!("{flag}: `{text}` is neither 7d nor 2026-01-01T00:00:00Z"))
    })?;
    let micros = i64::try_from(ago.as_micros()).unwrap_or(i64::MAX);
    let now = SystemClock.now().as_micros();
    Ok(Timestamp::from_micros(now.saturating_sub(micros)))
}

fn add(to: &mut Kinds, from: Kinds) {
    from.into_iter().for_each(|(kind, count)| *to.entry(kind).or_default() += count);
}

fn add_named(to: &mut BTreeMap<String, Kinds>, from: BTreeMap<String, Kinds>) {
    from.into_iter().for_each(|(name, kinds)| add(to.entry(name).or_default(), kinds));
}

impl Whole {
    fn add(&mut self, part: Part, limit: usize) {
        self.policy = part.policy;
        self.decisions += part.decisions;
        self.redacted += part.redacted;
        self.unanswered += part.unanswered;
        self.other_obligations += part.other_obligations;
        self.flips.total += part.flips.total;
        add(&mut self.flips.kinds, part.flips.kinds);
        add_named(&mut self.flips.tools, part.flips.tools);
        add_named(&mut self.flips.tenants, part.flips.tenants);
        add_named(&mut self.flips.rules, part.flips.rules);
        self.calls.extend(part.calls);
        self.calls.truncate(limit);
    }

    fn rate(&self) -> String {
        let rate = self.decisions as f64 / self.seconds.max(1e-9);
        format!("{} decisions in {:.1} s, {rate:.0} per second\n", self.decisions, self.seconds)
    }

    fn json(&self) -> Value {
        json!({
            "policy": self.policy, "decisions": self.decisions, "redacted": self.redacted,
            "unanswered": self.unanswered, "other_obligations": self.other_obligations,
            "flips": {
                "total": self.flips.total, "kinds": self.flips.kinds, "tools": self.flips.tools,
                "tenants": self.flips.tenants, "rules": self.flips.rules,
            },
            "calls": self.calls, "seconds": self.seconds,
        })
    }

    fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{} of {} decisions would flip under {}",
            self.flips.total,
            self.decisions,
            plain(&self.policy)
        );
        for (count, words) in [
            (self.unanswered, "have no answer there, so their calls would be held"),
            (self.other_obligations, "would be allowed under other obligations"),
            (self.redacted, "are kept in part only, so the answer may be another"),
        ] {
            if count > 0 {
                let _ = writeln!(text, "{count} {words}");
            }
        }
        if self.flips.total > 0 {
            text.push('\n');
            text += &self.counted();
            text.push('\n');
            text += &self.listed();
        }
        text
    }

    fn counted(&self) -> String {
        let mut table = Table::new(["BY", "NAME", "FLIP", "COUNT"]);
        let all: BTreeMap<String, Kinds> =
            BTreeMap::from([("all".to_owned(), self.flips.kinds.clone())]);
        for (by, names) in [
            ("", &all),
            ("tool", &self.flips.tools),
            ("tenant", &self.flips.tenants),
            ("rule", &self.flips.rules),
        ] {
            for (name, kinds) in names {
                for (kind, count) in kinds {
                    let kind = kind.replace("_to_", " -> ");
                    table.row([by.to_owned(), name.clone(), kind, count.to_string()]);
                }
            }
        }
        table.text()
    }

    fn listed(&self) -> String {
        let mut table = Table::new(["CALL", "TENANT", "TOOL", "WAS", "WOULD BE", "BECAUSE"]);
        for call in &self.calls {
            let field = |name: &str| call[name].as_str().unwrap_or_default().to_owned();
            let reason = &call["would_be_because"][0];
            let (rule, message) = (reason["rule"].as_str(), reason["message"].as_str());
            let because = format!("{}: {}", rule.unwrap_or("none"), message.unwrap_or(""));
            table.row([
                field("call"),
                field("tenant"),
                field("tool"),
                field("was"),
                field("would_be"),
                because,
            ]);
        }
        let mut text = table.text();
        let more = self.flips.total.saturating_sub(self.calls.len() as u64);
        if more > 0 {
            let _ = writeln!(text, "and {more} more");
        }
        text
    }
}
