//! Settings from the environment: our own variables, and compatible ones of other services.

use std::{ffi::OsString, path::PathBuf};

use ringfence_types::nearest;

use super::{
    keys::{self, Host, Key},
    layers::{Given, Source},
};
use crate::problems::Problems;

/// Variables of the process; empty ones count as unset.
pub(super) type Variables = [(OsString, OsString)];

/// All settings of the environment, compatible names first, so that ours override them.
pub(super) fn read(variables: &Variables, problems: &mut Problems) -> Vec<(&'static str, Given)> {
    let keys = keys::all(Host::this());
    let mut found = older(variables, &keys, problems);
    for (name, value) in variables {
        let Some(name) = name.to_str().filter(|name| name.starts_with("RINGFENCE_")) else {
            continue;
        };
        match keys.iter().find(|key| key.variable() == name) {
            Some(key) => {
                let values = problems.keep(text(name, value)).map(|text| split(key, &text));
                found.extend(values.map(|values| (key.name, given(name, values))));
            }
            None if keys::OTHERS.contains(&name) => {}
            None => problems.add(unknown(name, &keys)),
        }
    }
    found
}

/// The settings file, by flag or variable.
pub(super) fn config_file(
    flag: Option<&PathBuf>,
    variables: &Variables,
    problems: &mut Problems,
) -> Option<PathBuf> {
    let value = variables.iter().find(|(name, _)| name == "RINGFENCE_CONFIG");
    let text = value.and_then(|(_, value)| problems.keep(text("RINGFENCE_CONFIG", value)));
    flag.cloned().or(text.map(PathBuf::from))
}

fn older(
    variables: &Variables,
    keys: &[Key],
    problems: &mut Problems,
) -> Vec<(&'static str, Given)> {
    let mut value = |wanted: &str| {
        let (_, value) = variables.iter().find(|(name, _)| name == wanted)?;
        problems.keep(text(wanted, value))
    };
    let (host, port) = (value(keys::HOST), value(keys::PORT));
    let mut found: Vec<_> = listen(host, port).into_iter().collect();
    for (variable, name) in keys::OLDER {
        let key = keys.iter().find(|key| key.name == *name);
        if let (Some(key), Some(text)) = (key, value(variable)) {
            let text = match *name {
                "log.level" => level(&text),
                // OpenTelemetry has milliseconds.
                "otlp.timeout" => format!("{text}ms"),
                // SomaAgent 01 writes addresses alone.
                "bus" if !text.contains("://") => format!("kafka://{text}"),
                _ => text,
            };
            found.push((key.name, given(variable, split(key, &text))));
        }
    }
    found
}

/// A log level of SomaAgent 01 or the Code Executor Service: Python's names, in capitals.
fn level(text: &str) -> String {
    match text.to_ascii_lowercase().as_str() {
        "warning" => "warn".to_owned(),
        "critical" | "fatal" => "error".to_owned(),
        "notset" => "trace".to_owned(),
        other => other.to_owned(),
    }
}

/// `listen` from the two variables of the Code Executor Service.
fn listen(host: Option<String>, port: Option<String>) -> Option<(&'static str, Given)> {
    let source = match (&host, &port) {
        (None, None) => return None,
        (Some(_), Some(_)) => format!("{} and {}", keys::HOST, keys::PORT),
        (Some(_), None) => keys::HOST.to_owned(),
        (None, Some(_)) => keys::PORT.to_owned(),
    };
    let host = host.unwrap_or_else(|| "127.0.0.1".to_owned());
    let port = port.unwrap_or_else(|| "7420".to_owned());
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    Some(("listen", given(&source, vec![format!("{host}:{port}")])))
}

fn given(variable: &str, values: Vec<String>) -> Given {
    Given { values, source: Source::Variable(variable.to_owned()) }
}

fn text(name: &str, value: &OsString) -> Result<String, String> {
    value.to_str().map(str::to_owned).ok_or_else(|| format!("{name} is not UTF-8"))
}

/// Values of a list: folders are separated as in PATH, others by commas. `none` is the empty list,
/// since an empty variable counts as unset.
fn split(key: &Key, text: &str) -> Vec<String> {
    if !key.is_list {
        return vec![text.to_owned()];
    }
    if text.trim() == "none" {
        return Vec::new();
    }
    let separator = if key.name == "skills" { ':' } else { ',' };
    text.split(separator)
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

fn unknown(name: &str, keys: &[Key]) -> String {
    let known: Vec<String> = keys.iter().map(Key::variable).collect();
    let names = known.iter().map(String::as_str).chain(keys::OTHERS.iter().copied());
    match nearest(name, names) {
        Some(meant) => format!("variable {name} means nothing; did you mean {meant}?"),
        None => format!("variable {name} means nothing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(pairs: &[(&str, &str)]) -> (Vec<(&'static str, Given)>, Option<String>) {
        let variables: Vec<_> =
            pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let mut problems = Problems::default();
        let found = read(&variables, &mut problems);
        (found, problems.none().err().map(|failure| failure.text()))
    }

    fn value(found: &[(&'static str, Given)], wanted: &str) -> Vec<String> {
        let last = found.iter().rfind(|(name, _)| *name == wanted);
        last.map(|(_, given)| given.values.clone()).unwrap_or_default()
    }

    #[test]
    fn our_own_names_cover_the_older_ones() {
        let (found, problems) = from(&[
            ("CODE_EXEC_HOST", "0.0.0.0"),
            ("CODE_EXEC_PORT", "8002"),
            ("CODE_EXEC_LOG_LEVEL", "WARNING"),
            ("CODE_EXEC_REDIS_URL", "redis://elsewhere"),
            ("TOOL_EXECUTOR_TIMEOUT", "60"),
            ("RINGFENCE_CALLS_LONGEST", "5m"),
            ("RINGFENCE_SKILLS", "/a:/b"),
        ]);
        assert_eq!(problems, None);
        assert_eq!(value(&found, "redis"), ["redis://elsewhere"]);
        assert_eq!(value(&found, "listen"), ["0.0.0.0:8002"]);
        assert_eq!(value(&found, "log.level"), ["warn"]);
        assert_eq!(value(&found, "calls.longest"), ["5m"]);
        assert_eq!(value(&found, "skills"), ["/a", "/b"]);
    }

    #[test]
    fn none_is_the_empty_list() {
        let (found, problems) = from(&[("RINGFENCE_SANDBOX_PREPARE", "none")]);
        assert_eq!(problems, None);
        assert_eq!(found.len(), 1, "it is set, and so covers the default");
        assert_eq!(value(&found, "sandbox.prepare"), [""; 0]);
        let (found, _) = from(&[("RINGFENCE_LOG_LEVEL", "none")]);
        assert_eq!(value(&found, "log.level"), ["none"], "only lists have it");
    }

    #[test]
    fn an_unknown_name_is_a_problem_that_tells_the_nearest() {
        let (_, problems) = from(&[("RINGFENCE_LISTN", "x"), ("RINGFENCE_KEY", "rf_x")]);
        let told =
            "error: variable RINGFENCE_LISTN means nothing; did you mean RINGFENCE_LISTEN?\n";
        assert_eq!(problems.as_deref(), Some(told));
    }
}
