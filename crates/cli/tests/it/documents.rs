//! `docs/cli.md` tells the truth: what `--help` knows and what the reference names are the same.

use std::collections::BTreeSet;

use crate::support::ringfence;

const REFERENCE: &str = include_str!("../../../../docs/cli.md");

const COMMANDS: &[&[&str]] = &[
    &[],
    &["run"],
    &["shell"],
    &["doctor"],
    &["selftest"],
    &["image", "import"],
    &["image", "list"],
    &["image", "rm"],
    &["artifact", "list"],
    &["artifact", "show"],
    &["artifact", "get"],
    &["artifact", "put"],
    &["artifact", "history"],
    &["artifact", "rollback"],
    &["artifact", "verify"],
    &["artifact", "lineage"],
    &["artifact", "stats"],
    &["artifact", "rm"],
    &["chat"],
    &["session", "list"],
    &["session", "show"],
    &["session", "follow"],
    &["models", "list"],
    &["models", "fetch"],
    &["models", "verify"],
    &["models", "rm"],
    &["models", "export"],
    &["plan", "run"],
    &["plan", "preview"],
    &["plan", "ls"],
    &["plan", "show"],
    &["plan", "watch"],
    &["plan", "graph"],
    &["plan", "pause"],
    &["plan", "resume"],
    &["plan", "cancel"],
    &["plan", "retry"],
    &["plan", "step"],
    &["plan", "rm"],
    &["completions"],
    &["serve"],
    &["migrate"],
    &["erase"],
    &["prune"],
    &["call"],
    &["tools"],
    &["calls"],
    &["show"],
    &["wait"],
    &["sandbox", "ls"],
    &["sandbox", "create"],
    &["sandbox", "exec"],
    &["sandbox", "cp"],
    &["sandbox", "rm"],
    &["tool", "list"],
    &["tool", "import"],
    &["tool", "search"],
    &["tool", "openapi"],
    &["tool", "show"],
    &["tool", "approve"],
    &["tool", "grant"],
    &["tool", "diff"],
    &["tool", "enable"],
    &["tool", "disable"],
    &["tool", "quarantine"],
    &["tool", "revoke"],
    &["tool", "logs"],
    &["tool", "add"],
    &["tool", "data"],
    &["tool", "test"],
    &["discover"],
    &["skill", "new"],
    &["skill", "check"],
    &["skill", "test"],
    &["skill", "push"],
    &["skill", "ls"],
    &["skill", "rm"],
    &["logs"],
    &["cancel"],
    &["holds"],
    &["approve"],
    &["deny"],
    &["approvals"],
    &["events"],
    &["usage"],
    &["demo"],
    &["dlq", "list"],
    &["dlq", "replay"],
    &["dlq", "rm"],
    &["mcp"],
    &["mcp", "install"],
    &["mcp", "add"],
    &["mcp", "list"],
    &["mcp", "rm"],
    &["key", "create"],
    &["key", "list"],
    &["key", "revoke"],
    &["secret", "set"],
    &["secret", "list"],
    &["secret", "rm"],
    &["secret", "rotate"],
    &["policy", "show"],
    &["policy", "test"],
    &["policy", "replay"],
    &["policy", "case"],
    &["policy", "explain"],
    &["policy", "status"],
    &["policy", "canary"],
    &["audit"],
    &["export"],
    &["verify"],
    &["replay"],
    &["ledger", "checkpoint"],
    &["ledger", "consistency"],
    &["ledger", "keys"],
    &["ledger", "rotate"],
    &["config", "show"],
];

/// Words such as `--open-files`.
fn flags(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !(c.is_ascii_lowercase() || c == '-'))
        .filter(|word| word.starts_with("--") && word.len() > 2)
        .map(|word| word.trim_end_matches('-').to_owned())
        .collect()
}

fn help(command: &[&str]) -> String {
    let mut args = command.to_vec();
    args.push("--help");
    let ran = ringfence(&args);
    assert_eq!(ran.code, Some(0), "{command:?}");
    ran.text().to_owned()
}

#[test]
fn the_reference_and_the_help_name_the_same_flags() {
    let known: BTreeSet<String> = COMMANDS
        .iter()
        .flat_map(|command| {
            let text = help(command);
            let options = text.lines().filter(|line| line.trim_start().starts_with('-'));
            options
                .flat_map(|line| flags(line.trim_start().split("  ").next().unwrap_or(line)))
                .collect::<Vec<_>>()
        })
        .filter(is_own)
        .collect();
    let told: BTreeSet<String> = REFERENCE
        .lines()
        .filter(|line| line.starts_with("| `-"))
        .flat_map(|line| flags(line.split('|').nth(1).unwrap_or_default()))
        .filter(is_own)
        .collect();
    assert_eq!(told, known);
}

/// Whether a flag is of one command: these two are of the whole program as well.
fn is_own(flag: &String) -> bool {
    flag != "--help" && flag != "--version"
}

#[test]
fn every_command_is_in_the_reference() {
    for command in COMMANDS.iter().filter(|command| !command.is_empty()) {
        let title = format!("## `ringfence {}`", command[0]);
        assert!(REFERENCE.contains(&title), "{title}");
        assert!(help(command).contains("Usage:"));
    }
}

#[test]
fn every_field_of_the_object_is_in_the_reference() {
    let (_, object) = crate::support::json(&["--timeout", "100ms", "--", "sleep", "9"]);
    let fields = object.as_object().expect("an object");
    let inner = ["usage", "timings", "limit", "truncated"]
        .iter()
        .flat_map(|part| object[*part].as_object().expect("an object").keys());
    for field in fields.keys().chain(inner) {
        assert!(REFERENCE.contains(&format!("`{field}`")), "{field}");
    }
}

#[test]
fn cargo_run_at_the_root_of_the_checkout_is_the_product() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).expect("the workspace's manifest");
    assert!(manifest.contains("\ndefault-members = [\"crates/cli\"]\n"), "{manifest}");
}

/// Names of metrics in an expression of Prometheus: words that are followed by a range, a selector or the
/// end of an argument, and are no function, keyword or label.
fn metrics_of(expression: &str) -> Vec<&str> {
    const WORDS: [&str; 8] =
        ["sum", "by", "rate", "increase", "histogram_quantile", "le", "group", "result"];
    const LABELS: [&str; 4] = ["tool", "outcome", "decision", "dead"];
    let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let is_metric = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && !WORDS.contains(word)
            && !LABELS.contains(word)
            && !["failed", "postponed"].contains(word)
    };
    words.filter(is_metric).collect()
}

#[test]
fn dashboard_and_alerts_use_metrics_of_the_reference() {
    let reference = include_str!("../../../../docs/observability.md");
    let dashboard = include_str!("../../../../deploy/grafana/ringfence-bus.json");
    let alerts = include_str!("../../../../deploy/prometheus/ringfence-bus.yml");
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let shown = targets.map(|target| target["expr"].as_str().expect("an expression"));
    let alerting = alerts.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let expressions: Vec<&str> = shown.chain(alerting).collect();
    let mut count = 0;
    for metric in expressions.iter().flat_map(|expression| metrics_of(expression)) {
        let family = metric.strip_suffix("_bucket").unwrap_or(metric);
        assert!(reference.contains(&format!("`{family}`")), "{metric} is not in the reference");
        count += 1;
    }
    assert!(count > 15, "{count} metrics found in {expressions:?}");
}
