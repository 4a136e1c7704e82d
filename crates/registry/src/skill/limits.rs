//! `limits` of a manifest, converted to sandbox limits.

use std::time::Duration;

use ringfence_types::{Bytes, Cpus, Limits, MAX_TERMINALS, SandboxNetwork};

use super::yaml::Yaml;
use crate::text::shown;

/// Limit that a skill may set: key, lowest and highest value.
const TIMEOUT_SECONDS: (&str, f64, f64) = ("timeout_seconds", 0.001, 3_600.0);
const MAX_MEMORY_MB: (&str, f64, f64) = ("max_memory_mb", 8.0, 16_384.0);
/// 100 is one processor.
const MAX_CPU_PERCENT: (&str, f64, f64) = ("max_cpu_percent", 1.0, 6_400.0);

/// Reads the limits, or returns all problems. An unknown key is a problem: a limit that is silently
/// ignored is worse than none.
pub(super) fn read(map: &[(String, Yaml)]) -> Result<Limits, Vec<String>> {
    let mut limits = Limits::default();
    let mut problems = Vec::new();
    for (key, value) in map {
        if let Err(problem) = one(&mut limits, key, value) {
            problems.push(problem);
        }
    }
    if problems.is_empty() { fitting(limits) } else { Err(problems) }
}

fn one(limits: &mut Limits, key: &str, value: &Yaml) -> Result<(), String> {
    match key {
        _ if *value == Yaml::Null => {}
        "timeout_seconds" => {
            limits.wall = Duration::from_secs_f64(number(TIMEOUT_SECONDS, value)?);
        }
        // A whole number of bytes whatever the fraction was.
        "max_memory_mb" => {
            let megabytes = number(MAX_MEMORY_MB, value)?;
            limits.memory = Bytes((megabytes * f64::from(1 << 20)) as u64);
        }
        "max_cpu_percent" => {
            limits.cpus = Cpus((number(MAX_CPU_PERCENT, value)? * 10.0).round() as u32);
        }
        "network" => limits.network = network(value)?,
        "terminals" => {
            let bounds = ("terminals", 0.0, f64::from(MAX_TERMINALS));
            limits.terminals = number(bounds, value)? as u32;
        }
        _ => return Err(format!("{}: is not a limit", shown(key))),
    }
    Ok(())
}

fn network(value: &Yaml) -> Result<SandboxNetwork, String> {
    match value {
        Yaml::Text(text) => text
            .parse()
            .map_err(|_| format!("network: `{}` is not one of none, loopback", shown(text))),
        other => Err(format!("network: must be text, found {}", other.kind())),
    }
}

fn number((key, least, most): (&str, f64, f64), value: &Yaml) -> Result<f64, String> {
    match value {
        Yaml::Number(number) if (least..=most).contains(number) => Ok(*number),
        Yaml::Number(_) => Err(format!("{key}: must be from {least} to {most}")),
        other => Err(format!("{key}: must be a number, found {}", other.kind())),
    }
}

/// Fits the disk limit to the memory limit: the workspace lives in memory.
fn fitting(mut limits: Limits) -> Result<Limits, Vec<String>> {
    limits.disk = limits.disk.min(Bytes(limits.memory.0 / 2));
    limits.checked().map_err(|error| {
        error.problems.iter().map(|problem| format!("{} {}", problem.field, problem.rule)).collect()
    })
}
