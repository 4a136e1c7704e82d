//! Findings of the measuring binary, parsed from its JSON.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::measurement::Measurement;

/// Findings of one run.
#[derive(Debug)]
pub(super) struct Findings {
    pub(super) rows: Vec<Row>,
    /// Rows without samples, with their reasons; skipped peers are added to these.
    pub(super) missing: Vec<(String, String)>,
    pub(super) loops: Vec<Loop>,
    pub(super) idle: Result<Idle, String>,
    pub(super) processor_source: String,
}

/// Row of the latency table.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) total: Measurement,
    /// Setup and run as the library measured them.
    pub(super) split: Option<(Measurement, Measurement)>,
}

/// Closed loop.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Loop {
    pub(super) name: String,
    pub(super) concurrency: u64,
    pub(super) result: Result<Pace, String>,
}

/// Rate and cost of a loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pace {
    pub(super) calls: u64,
    pub(super) calls_per_sec: f64,
    pub(super) own_cpu_ms: Option<f64>,
    pub(super) machine_cpu_ms: f64,
}

/// Memory of idle zygote children, together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Idle {
    pub(super) members: u64,
    pub(super) processes: u64,
    pub(super) pss_kib: u64,
    pub(super) private_kib: u64,
    pub(super) kernel_kib: Option<u64>,
    pub(super) zygote_pss_kib: u64,
}

impl Findings {
    /// Row of this name, if it has samples.
    pub(super) fn row(&self, name: &str) -> Option<&Measurement> {
        self.rows.iter().map(|row| &row.total).find(|total| total.name == name)
    }

    /// Loop of this name at this concurrency, if it ran.
    pub(super) fn pace(&self, name: &str, concurrency: u64) -> Option<Pace> {
        let found = self.loops.iter().find(|l| l.name == name && l.concurrency == concurrency)?;
        found.result.as_ref().ok().copied()
    }
}

/// Parses the findings; an error names the part with the wrong shape.
pub(super) fn parse(text: &str) -> Result<Findings> {
    let value: Value = serde_json::from_str(text).context("the findings are not JSON")?;
    let list = |key: &str| value[key].as_array().with_context(|| format!("no list `{key}`"));
    Ok(Findings {
        rows: list("latency")?.iter().map(row).collect::<Result<_>>()?,
        missing: list("failed")?.iter().map(failed).collect::<Result<_>>()?,
        loops: list("throughput")?.iter().map(one_loop).collect::<Result<_>>()?,
        idle: match &value["memory"] {
            Value::Null => Err(text_of(&value, "memory_failed")?),
            memory => Ok(idle(memory)?),
        },
        processor_source: text_of(&value, "processor_source")?,
    })
}

fn row(value: &Value) -> Result<Row> {
    let name = text_of(value, "name")?;
    let total = samples(value, &name, "total_us")?;
    let split = match value["setup_us"].as_array().map_or(0, Vec::len) {
        0 => None,
        _ => Some((samples(value, &name, "setup_us")?, samples(value, &name, "run_us")?)),
    };
    Ok(Row { total, split })
}

fn samples(value: &Value, name: &str, key: &str) -> Result<Measurement> {
    let list = value[key].as_array().with_context(|| format!("`{name}` has no `{key}`"))?;
    let micros = list.iter().filter_map(Value::as_u64).map(Duration::from_micros);
    Measurement::new(name, micros.collect())
}

fn failed(value: &Value) -> Result<(String, String)> {
    Ok((text_of(value, "name")?, text_of(value, "error")?))
}

fn one_loop(value: &Value) -> Result<Loop> {
    let result = match value["error"].as_str() {
        Some(error) => Err(error.to_owned()),
        None => Ok(pace(value)?),
    };
    let concurrency = number(value, "concurrency")?;
    Ok(Loop { name: text_of(value, "name")?, concurrency, result })
}

fn pace(value: &Value) -> Result<Pace> {
    let calls = number(value, "calls")?;
    let each = |secs: f64| secs * 1000.0 / (calls.max(1) as f64);
    let secs = value["secs"].as_f64().context("a loop without `secs`")?;
    Ok(Pace {
        calls,
        calls_per_sec: calls as f64 / secs,
        own_cpu_ms: value["own_cpu_secs"].as_f64().map(each),
        machine_cpu_ms: each(value["machine_cpu_secs"].as_f64().unwrap_or_default()),
    })
}

fn idle(value: &Value) -> Result<Idle> {
    Ok(Idle {
        members: number(value, "members")?,
        processes: number(value, "processes")?,
        pss_kib: number(value, "pss_kib")?,
        private_kib: number(value, "private_kib")?,
        kernel_kib: value["kernel_kib"].as_u64(),
        zygote_pss_kib: number(value, "zygote_pss_kib")?,
    })
}

fn text_of(value: &Value, key: &str) -> Result<String> {
    value[key].as_str().map(str::to_owned).with_context(|| format!("no text `{key}`"))
}

fn number(value: &Value, key: &str) -> Result<u64> {
    value[key].as_u64().with_context(|| format!("no number `{key}`"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Findings with two rows, one loop that ran and one that did not.
    pub(in super::super) const EXAMPLE: &str = r#"{
        "latency": [
            {"name":"bare python","total_us":[10000,10000],"setup_us":[],"run_us":[]},
            {"name":"zygote python","total_us":[500,900],"setup_us":[100,100],"run_us":[400,800]}
        ],
        "failed": [{"name":"runc true","error":"no"}],
        "throughput": [
            {"name":"bare python","concurrency":4,"calls":200,"secs":2.0,"own_cpu_secs":2.0,
             "machine_cpu_secs":3.0,"error":null},
            {"name":"cold true","concurrency":4,"calls":0,"secs":0.0,"own_cpu_secs":null,
             "machine_cpu_secs":0.0,"error":"broke"}
        ],
        "memory": {"members":4,"processes":8,"pss_kib":4096,"private_kib":4000,
                   "kernel_kib":null,"zygote_pss_kib":5000},
        "memory_failed": null, "processor_source": "a cgroup"
    }"#;

    #[test]
    fn findings_are_read_back() {
        let findings = parse(EXAMPLE).expect("the example");
        let zygote = findings.row("zygote python").expect("a row");
        assert_eq!(zygote.percentile(50), Duration::from_micros(500));
        let pace = findings.pace("bare python", 4).expect("a loop");
        assert_eq!((pace.calls_per_sec, pace.own_cpu_ms), (100.0, Some(10.0)));
        assert_eq!(findings.pace("cold true", 4), None);
        assert_eq!(findings.missing, [("runc true".to_owned(), "no".to_owned())]);
    }

    #[test]
    fn what_has_another_shape_is_an_error_that_names_the_part() {
        let error = parse(r#"{"latency":[]}"#).expect_err("no other lists").to_string();
        assert_eq!(error, "no list `failed`");
        assert!(parse("nonsense").is_err());
    }
}
