//! `bench policy`: cost of a decision, beside a real OPA server on loopback.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ringfence_testkit::server::OPA;
use serde_json::Value;

use super::aim::{self, Aim, Bound, aim};
use super::machine::{self, Quiet};
use super::measurement::{Measurement, ratio};
use crate::{report, servers, settings, shell};

/// Name suffix of rows whose rules cannot be looked up by their conditions.
const EVERY: &str = ", every rule";

/// Rows by name and number of rules.
struct Findings(Vec<(String, u64, Measurement)>);

const AIMS: &[Aim<Findings>] = &[
    aim("OPA server by embedded, 1 rule, p50", Bound::AtLeast(20.0), "x", |found| found.by(1, 50)),
    aim("OPA server by embedded, 100 rules, p50", Bound::AtLeast(20.0), "x", |found| {
        found.by(100, 50)
    }),
    aim("OPA server by embedded, 1000 rules, p50", Bound::AtLeast(20.0), "x", |found| {
        found.by(1_000, 50)
    }),
    aim("OPA server by embedded, 1000 rules, p99", Bound::AtLeast(20.0), "x", |found| {
        found.by(1_000, 99)
    }),
];

/// Measures; `--quick` is a short run, `--json FILE` writes the samples.
pub(super) fn run(words: &[&str]) -> Result<()> {
    let (runs, json) = options(words)?;
    let opa = servers::provide(&OPA).program?;
    let quiet = Quiet::look();
    let mut cargo = shell::command(settings::cargo());
    cargo
        .args(["run", "--release", "--quiet", "--package", "ringfence-policy"])
        .args(["--example", "beside_opa", "--", runs])
        .env(OPA.variable, opa)
        .current_dir(settings::workspace_root());
    let text = shell::read(&mut cargo)?;
    if let Some(path) = json {
        fs::write(&path, &text).with_context(|| format!("write `{}`", path.display()))?;
    }
    let found = parse(&text)?;
    println!("\n{}\nopa {}", machine::describe(), OPA.version);
    quiet.warning().iter().for_each(|warning| println!("{warning}"));
    println!("\n{}\n{}", table(&found), aim::render(AIMS, &found));
    Ok(())
}

fn options<'a>(words: &[&'a str]) -> Result<(&'a str, Option<PathBuf>)> {
    let (mut runs, mut json) = ("5000", None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--quick" => runs = "500",
            "--json" => json = Some(words.next().context("--json needs a file")?.into()),
            other => bail!("`bench policy` does not know `{other}`"),
        }
    }
    Ok((runs, json))
}

fn parse(text: &str) -> Result<Findings> {
    let value: Value = serde_json::from_str(text).context("the findings are not JSON")?;
    let rows = value["rows"].as_array().context("no list `rows`")?;
    let row = |row: &Value| {
        let name = row["name"].as_str().context("a row without a name")?;
        let rules = row["rules"].as_u64().context("a row without rules")?;
        let nanos = row["nanos"].as_array().context("a row without samples")?;
        let samples = nanos.iter().filter_map(Value::as_u64).map(Duration::from_nanos).collect();
        Ok((name.to_owned(), rules, Measurement::new(name, samples)?))
    };
    Ok(Findings(rows.iter().map(row).collect::<Result<_>>()?))
}

impl Findings {
    fn at(&self, name: &str, rules: u64, percent: usize) -> Option<Duration> {
        let row = self.0.iter().find(|(known, size, _)| known == name && *size == rules);
        row.map(|(_, _, measured)| measured.percentile(percent))
    }

    /// Time of the server divided by that of the embedded rules.
    fn by(&self, rules: u64, percent: usize) -> Option<f64> {
        ratio(self.at("OPA server", rules, percent)?, self.at("embedded", rules, percent)?)
    }
}

/// Table in microseconds, with the server's time as a multiple.
fn table(found: &Findings) -> String {
    let head = ["decision by", "rules", "p50 us", "p99 us", "OPA by it, p50", "p99", "runs"];
    let mut lines = vec![head.map(str::to_owned)];
    for (name, rules, measured) in &found.0 {
        let micros = |percent| format!("{:.1}", measured.percentile(percent).as_secs_f64() * 1e6);
        let beside = if name.ends_with(EVERY) { "OPA server, every rule" } else { "OPA server" };
        let times = |percent| {
            let server = found.at(beside, *rules, percent);
            let times = server.and_then(|server| ratio(server, measured.percentile(percent)));
            times.map_or_else(|| "-".to_owned(), |times| format!("{times:.1}x"))
        };
        lines.push([
            name.clone(),
            rules.to_string(),
            micros(50),
            micros(99),
            times(50),
            times(99),
            measured.runs().to_string(),
        ]);
    }
    report::align(&lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_a_multiple_of_the_embedded_rules() {
        let text = r#"{"rows":[{"name":"embedded","rules":1,"nanos":[1000,2000]},
            {"name":"OPA server","rules":1,"nanos":[40000,40000]}]}"#;
        let found = parse(text).expect("findings");
        let by = |rules, percent| found.by(rules, percent).map(f64::round);
        assert_eq!((by(1, 50), by(1, 99), by(7, 50)), (Some(40.0), Some(20.0), None));
        assert_eq!(aim::line(&AIMS[0], &found)[1], "reached");
        assert_eq!(aim::line(&AIMS[1], &found)[1], "NOT measured");
    }

    #[test]
    fn what_is_not_understood_is_named() {
        assert!(options(&["--slow"]).is_err() && options(&["--json"]).is_err());
        assert_eq!(options(&["--quick"]).expect("a look").0, "500");
    }
}
