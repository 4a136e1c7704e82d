//! Findings of the measuring binary, parsed from its JSON.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::bench::measurement::Measurement;

/// Findings of one run.
#[derive(Debug)]
pub(super) struct Findings {
    /// Closed loops, the rounds of each taken together, in the order of the plan.
    pub(super) paces: Vec<Pace>,
    pub(super) paced: Vec<Offered>,
    pub(super) floods: Vec<Offered>,
    /// Rows per commit and rows per second.
    pub(super) sqlite: Vec<(u64, f64)>,
    pub(super) starts: Option<Measurement>,
    pub(super) idle: Vec<Idle>,
    /// Missing measurements, with their reasons.
    pub(super) missing: Vec<(String, String)>,
    pub(super) processor_source: String,
}

/// Row at one number of connections: medians of its rounds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pace {
    pub(super) name: String,
    pub(super) connections: u64,
    pub(super) calls: u64,
    pub(super) wrong: u64,
    pub(super) per_sec: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) each: Each,
}

/// Cost per call.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Each {
    /// Milliseconds of processor time of the service with all its processes.
    pub(super) service: Option<f64>,
    /// User time of its first process.
    pub(super) user: f64,
    pub(super) system: f64,
    /// Threads of that process, by name.
    pub(super) threads: Vec<(String, f64)>,
    pub(super) generator: f64,
    pub(super) machine: f64,
    pub(super) written_kib: f64,
}

/// Run at a fixed rate.
#[derive(Debug)]
pub(super) struct Offered {
    pub(super) name: String,
    pub(super) rate: f64,
    pub(super) connections: u64,
    pub(super) secs: f64,
    /// All correct answers; `None` if there was none.
    pub(super) answered: Option<Measurement>,
    /// Correct answers to requests due in the first half, and in the second.
    pub(super) halves: [Option<Measurement>; 2],
    pub(super) refused: Option<Measurement>,
    pub(super) wrong: u64,
    pub(super) lost: u64,
    pub(super) unsent: u64,
}

/// Memory of the idle server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Idle {
    pub(super) when: String,
    /// Name, number of processes, KiB.
    pub(super) processes: Vec<(String, u64, u64)>,
}

impl Findings {
    /// Highest rate of all rows with this name prefix.
    pub(super) fn best(&self, start: &str) -> Option<&Pace> {
        let paces = self.paces.iter().filter(|pace| pace.name.starts_with(start));
        paces.max_by(|one, other| one.per_sec.total_cmp(&other.per_sec))
    }

    /// Lowest median at the fixed rate of all rows with this name prefix.
    pub(super) fn median(&self, start: &str) -> Option<Duration> {
        let rows = self.paced.iter().filter(|row| row.name.starts_with(start));
        rows.filter_map(|row| Some(row.answered.as_ref()?.percentile(50))).min()
    }

    /// Row at twice its capacity.
    pub(super) fn flood(&self, name: &str) -> Option<&Offered> {
        self.floods.iter().find(|flood| flood.name == name)
    }
}

impl Offered {
    /// Correct answers per second.
    pub(super) fn per_sec(&self) -> f64 {
        count(self.answered.as_ref()) as f64 / self.secs
    }
}

/// Number of samples.
pub(super) fn count(samples: Option<&Measurement>) -> usize {
    samples.map_or(0, Measurement::runs)
}

impl Idle {
    /// Memory of all processes, in millions of bytes.
    pub(super) fn megabytes(&self) -> f64 {
        let kib: u64 = self.processes.iter().map(|(_, _, kib)| kib).sum();
        kib as f64 * 1024.0 / 1e6
    }
}

/// Parses the findings; an error names the part with the wrong shape.
pub(super) fn parse(text: &str) -> Result<Findings> {
    let value: Value = serde_json::from_str(text).context("the findings are not JSON")?;
    Ok(Findings {
        paces: paces(list(&value, "loops")?)?,
        paced: list(&value, "paced")?.iter().map(offered).collect::<Result<_>>()?,
        floods: list(&value, "floods")?.iter().map(offered).collect::<Result<_>>()?,
        sqlite: list(&value, "sqlite")?.iter().map(commits).collect::<Result<_>>()?,
        starts: samples(&value, "starts_us")?,
        idle: list(&value, "idle")?.iter().map(idle).collect::<Result<_>>()?,
        missing: list(&value, "failed")?.iter().map(missing).collect::<Result<_>>()?,
        processor_source: text_of(&value, "processor_source")?,
    })
}

fn paces(loops: &[Value]) -> Result<Vec<Pace>> {
    let mut keys: Vec<(String, u64)> = Vec::new();
    for one in loops {
        let key = (text_of(one, "name")?, number(one, "connections")?);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let of = |key: &(String, u64)| {
        let is_it = |one: &&Value| one["name"] == key.0 && one["connections"] == key.1;
        pace(key, &loops.iter().filter(is_it).collect::<Vec<_>>())
    };
    keys.iter().map(of).collect()
}

fn pace(key: &(String, u64), rounds: &[&Value]) -> Result<Pace> {
    let sum = |name: &str| rounds.iter().map(|round| number(round, name)).sum::<Result<u64>>();
    let each = |read: fn(&Value) -> Result<f64>| {
        let mut numbers = rounds.iter().map(|round| read(round)).collect::<Result<Vec<_>>>()?;
        numbers.sort_by(f64::total_cmp);
        anyhow::Ok(numbers[(numbers.len() - 1) / 2])
    };
    Ok(Pace {
        name: key.0.clone(),
        connections: key.1,
        calls: sum("calls")?,
        wrong: sum("wrong")?,
        per_sec: each(|round| {
            let right = number(round, "calls")?.saturating_sub(number(round, "wrong")?);
            Ok(right as f64 / real(round, "secs")?)
        })?,
        p50_ms: each(|round| Ok(number(round, "p50_us")? as f64 / 1000.0))?,
        p99_ms: each(|round| Ok(number(round, "p99_us")? as f64 / 1000.0))?,
        each: each_call(rounds, sum("calls")?)?,
    })
}

fn each_call(rounds: &[&Value], calls: u64) -> Result<Each> {
    let calls = calls.max(1) as f64;
    let mut each = Each::default();
    for used in rounds.iter().map(|round| &round["used"]) {
        let millis = |name: &str| Ok::<_, anyhow::Error>(real(used, name)? * 1000.0 / calls);
        if let Some(secs) = used["service_secs"].as_f64() {
            *each.service.get_or_insert_default() += secs * 1000.0 / calls;
        }
        each.user += millis("user_secs")?;
        each.system += millis("system_secs")?;
        each.generator += millis("generator_secs")?;
        each.machine += millis("machine_secs")?;
        each.written_kib += number(used, "written_bytes")? as f64 / 1024.0 / calls;
        for thread in list(used, "threads")? {
            let (name, millis) = (text_of(thread, "name")?, real(thread, "secs")? * 1000.0 / calls);
            match each.threads.iter_mut().find(|known| known.0 == name) {
                Some(known) => known.1 += millis,
                None => each.threads.push((name, millis)),
            }
        }
    }
    each.threads.sort_by(|one, other| other.1.total_cmp(&one.1));
    Ok(each)
}

fn offered(value: &Value) -> Result<Offered> {
    let mut all = list(value, "early_us")?.clone();
    all.extend(list(value, "late_us")?.iter().cloned());
    let name = text_of(value, "name")?;
    Ok(Offered {
        rate: real(value, "rate")?,
        connections: number(value, "connections")?,
        secs: real(value, "secs")?,
        answered: measurement(&name, &all),
        halves: [samples(value, "early_us")?, samples(value, "late_us")?],
        refused: samples(value, "refused_us")?,
        wrong: number(value, "wrong")?,
        lost: number(value, "lost")?,
        unsent: number(value, "unsent")?,
        name,
    })
}

fn idle(value: &Value) -> Result<Idle> {
    let process =
        |one: &Value| Ok((text_of(one, "name")?, number(one, "count")?, number(one, "pss_kib")?));
    let processes = list(value, "processes")?.iter().map(process).collect::<Result<_>>()?;
    Ok(Idle { when: text_of(value, "when")?, processes })
}

fn commits(value: &Value) -> Result<(u64, f64)> {
    Ok((number(value, "batch")?, real(value, "rows_per_sec")?))
}

fn missing(value: &Value) -> Result<(String, String)> {
    Ok((text_of(value, "what")?, text_of(value, "error")?))
}

fn samples(value: &Value, key: &str) -> Result<Option<Measurement>> {
    Ok(measurement(key, list(value, key)?))
}

fn measurement(name: &str, micros: &[Value]) -> Option<Measurement> {
    let micros = micros.iter().filter_map(Value::as_u64).map(Duration::from_micros);
    Measurement::new(name, micros.collect()).ok()
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    value[key].as_array().with_context(|| format!("no list `{key}`"))
}

fn text_of(value: &Value, key: &str) -> Result<String> {
    value[key].as_str().map(str::to_owned).with_context(|| format!("no text `{key}`"))
}

fn number(value: &Value, key: &str) -> Result<u64> {
    value[key].as_u64().with_context(|| format!("no number `{key}`"))
}

fn real(value: &Value, key: &str) -> Result<f64> {
    value[key].as_f64().with_context(|| format!("no number `{key}`"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two rounds of Ringfence's no-op, one of a peer's, a skill at a fixed rate and flooded.
    pub(in super::super) const EXAMPLE: &str = r#"{
        "loops": [
            {"name":"ringfence no-op","connections":64,"calls":20000,"secs":2.0,"wrong":0,
             "p50_us":6000,"p99_us":12000,"used":{"service_secs":2.0,"user_secs":1.0,
             "system_secs":0.5,"threads":[{"name":"a","secs":0.5},{"name":"b","secs":1.0}],
             "written_bytes":20480000,"generator_secs":1.0,"machine_secs":4.0}},
            {"name":"fastapi no-op, 1 worker","connections":64,"calls":8000,"secs":2.0,"wrong":0,
             "p50_us":15000,"p99_us":30000,"used":{"service_secs":null,"user_secs":1.0,
             "system_secs":0.5,"threads":[],"written_bytes":0,"generator_secs":1.0,
             "machine_secs":4.0}},
            {"name":"ringfence no-op","connections":64,"calls":30000,"secs":2.0,"wrong":2000,
             "p50_us":4000,"p99_us":10000,"used":{"service_secs":2.0,"user_secs":1.0,
             "system_secs":0.5,"threads":[{"name":"b","secs":1.0}],
             "written_bytes":20480000,"generator_secs":1.0,"machine_secs":4.0}}
        ],
        "paced": [
            {"name":"ringfence skill","rate":25.0,"connections":32,"secs":4.0,"early_us":[3000,1000],
             "late_us":[2000],"refused_us":[],"wrong":0,"lost":0,"unsent":0},
            {"name":"fastapi handler in process, 1 worker","rate":25.0,"connections":32,"secs":4.0,
             "early_us":[800],"late_us":[900],"refused_us":[],"wrong":0,"lost":0,"unsent":0}
        ],
        "floods": [
            {"name":"ringfence no-op","rate":20000.0,"connections":512,"secs":2.0,
             "early_us":[60000,70000],"late_us":[80000],"refused_us":[500],"wrong":1,"lost":2,
             "unsent":30}
        ],
        "sqlite": [{"batch":1,"rows_per_sec":500.0},{"batch":256,"rows_per_sec":40000.0}],
        "starts_us": [100000,200000], "processor_source": "a cgroup",
        "idle": [{"when":"after start","processes":[{"name":"ringfence","count":1,"pss_kib":20000},
                                                    {"name":"python3","count":3,"pss_kib":10000}]}],
        "failed": [{"what":"fastapi + docker run, 2 workers","error":"no"}]
    }"#;

    #[test]
    fn rounds_of_a_row_become_one_pace() {
        let found = parse(EXAMPLE).expect("the example");
        let pace = found.best("ringfence no-op").expect("a pace");
        assert_eq!((pace.calls, pace.wrong, pace.per_sec), (50000, 2000, 10000.0));
        assert_eq!((pace.p50_ms, pace.p99_ms), (4.0, 10.0));
        assert_eq!(pace.each.service, Some(0.08));
        assert_eq!(pace.each.threads, [("b".to_owned(), 0.04), ("a".to_owned(), 0.01)]);
        assert_eq!(found.best("fastapi no-op").and_then(|pace| pace.each.service), None);
    }

    #[test]
    fn both_halves_are_one_measurement() {
        let found = parse(EXAMPLE).expect("the example");
        assert_eq!(found.median("ringfence skill"), Some(Duration::from_millis(2)));
        let flood = found.flood("ringfence no-op").expect("a flood");
        assert_eq!((count(flood.answered.as_ref()), flood.per_sec()), (3, 1.5));
        assert_eq!(found.idle[0].megabytes(), 30.72);
    }

    #[test]
    fn what_has_another_shape_is_an_error_that_names_the_part() {
        let error = parse(r#"{"loops":[]}"#).expect_err("no other lists").to_string();
        assert_eq!(error, "no list `paced`");
        assert!(parse("nonsense").is_err());
    }
}
