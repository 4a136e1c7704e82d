//! Closed-loop generator: `wrk`, with a script for requests and report.

use std::{net::SocketAddr, path::Path};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::{command, target::Target};

/// Report of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Report {
    pub(crate) calls: u64,
    pub(crate) duration_us: u64,
    /// Answers of 400 and above, and broken connections.
    pub(crate) wrong: u64,
    pub(crate) p50_us: u64,
    pub(crate) p99_us: u64,
}

/// Runs with this many connections, each repeating its request when it was answered.
pub(crate) fn run(
    wrk: &Path,
    scratch: &Path,
    target: &Target,
    connections: usize,
    secs: f64,
) -> Result<Report> {
    let file = scratch.join("ask.lua");
    std::fs::write(&file, script(target)?).context("write the script")?;
    // One thread is enough for many times the measured rate, and leaves the cores to the service.
    let mut wrk = command(wrk);
    wrk.args(["-t", "1", "-c", &connections.to_string()]);
    // `wrk` takes whole seconds.
    wrk.args(["-d", &format!("{}s", secs.ceil()), "--timeout", "60s", "-s"]).arg(&file);
    let output = wrk.arg(url(target.address, &target.path)).output().context("start wrk")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("wrk ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    parse(&text).with_context(|| format!("wrk said: {}", text.trim()))
}

fn url(address: SocketAddr, path: &str) -> String {
    format!("http://{address}{path}")
}

/// Script that reports as one line of JSON: the text that `wrk` prints has three digits only.
fn script(target: &Target) -> Result<String> {
    let key = target.key.as_deref().unwrap_or_default();
    ensure!(!target.body.contains("]==]"), "a body that would end the script's string");
    ensure!(key.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\'));
    let authorization = match key {
        "" => String::new(),
        key => format!("wrk.headers[\"Authorization\"] = \"Bearer {key}\"\n"),
    };
    Ok(format!(
        r#"wrk.method = "POST"
wrk.body = [==[{body}]==]
wrk.headers["Content-Type"] = "application/json"
{authorization}function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '\n{{"calls":%d,"duration_us":%d,"wrong":%d,"p50_us":%d,"p99_us":%d}}\n',
    summary.requests, summary.duration, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50), latency:percentile(99)))
end
"#,
        body = target.body
    ))
}

/// Parses the script's line, the last one that `wrk` prints.
fn parse(text: &str) -> Result<Report> {
    let line = text.lines().rfind(|line| line.starts_with('{')).context("no report")?;
    let report: Report = serde_json::from_str(line).context("a report of another shape")?;
    ensure!(report.duration_us > 0, "a run without duration");
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "Running 2s test @ http://127.0.0.1:7420/v1/calls
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     6.21ms    2.11ms  31.60ms   80.00%
    Req/Sec    10.35k   200.00    10.90k    70.00%
  20590 requests in 2.00s, 12.01MB read
Requests/sec:  10290.12
Transfer/sec:      6.00MB

{\"calls\":20590,\"duration_us\":2000950,\"wrong\":3,\"p50_us\":5900,\"p99_us\":14800}
";

    #[test]
    fn the_report_is_found_after_the_words() {
        let expected =
            Report { calls: 20590, duration_us: 2_000_950, wrong: 3, p50_us: 5900, p99_us: 14800 };
        assert_eq!(parse(OUTPUT).expect("a report"), expected);
    }

    #[test]
    fn words_without_a_report_are_an_error() {
        let words = OUTPUT.split_once('{').expect("a report").0;
        assert!(parse(words).is_err());
        assert!(parse("{\"calls\":1}").is_err());
        let empty = r#"{"calls":0,"duration_us":0,"wrong":0,"p50_us":0,"p99_us":0}"#;
        assert!(parse(empty).is_err());
    }

    #[test]
    fn the_script_asks_with_the_key_and_cannot_be_broken_out_of() {
        let target = |body: &str, key: Option<&str>| Target {
            address: SocketAddr::from(([127, 0, 0, 1], 1)),
            path: "/".to_owned(),
            key: key.map(str::to_owned),
            body: body.to_owned(),
            mark: String::new(),
        };
        let with_key = script(&target("{}", Some("rf_x"))).expect("a script");
        assert!(with_key.contains(r#"wrk.headers["Authorization"] = "Bearer rf_x""#));
        assert!(!script(&target("{}", None)).expect("a script").contains("Authorization"));
        assert!(script(&target("]==] os.exit()", None)).is_err());
        assert!(script(&target("{}", Some("a\"b"))).is_err());
    }
}
