//! `ringfence usage`: what calls took, per day or hour, key and tool.

use std::process::ExitCode;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    cli::UsageArgs,
    client::{Client, escaped, on_server, pretty},
    failure::Failure,
    print,
    table::{Table, plain},
};

#[derive(Debug, Deserialize)]
struct Listed {
    rows: Vec<Box<RawValue>>,
    total: Used,
    has_more: bool,
    #[serde(default)]
    budgets: Vec<Budget>,
}

/// A budget, as much of it as is shown.
#[derive(Debug, Deserialize)]
struct Budget {
    key_id: Option<String>,
    per: String,
    calls: Option<Amount>,
    cpu_seconds: Option<Amount>,
    output_bytes: Option<Amount>,
    tokens: Option<Amount>,
    renewed_at: String,
}

#[derive(Debug, Deserialize)]
struct Amount {
    limit: f64,
    used: f64,
}

#[derive(Debug, Deserialize)]
struct Row {
    at: String,
    tenant: String,
    key_id: Option<String>,
    tool: Option<String>,
    #[serde(flatten)]
    used: Used,
}

#[derive(Debug, Deserialize)]
struct Used {
    calls: u64,
    failures: u64,
    cpu_seconds: f64,
    wall_seconds: f64,
    output_bytes: u64,
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
}

pub(crate) fn usage(args: &UsageArgs) -> Result<ExitCode, Failure> {
    on_server(&args.client, async |client| show(client, args).await)
}

async fn show(client: &Client, args: &UsageArgs) -> Result<(), Failure> {
    let listed: Listed = client.get(&format!("/v1/usage?{}", query(args))).await?;
    if args.client.json {
        listed.rows.iter().for_each(|row| print::line(&pretty::compact(row.get())));
    } else {
        let budgets: String = listed.budgets.iter().map(budget_line).collect();
        print::data(format!("{}{budgets}", table(args, &listed)?).as_bytes());
    }
    if listed.has_more {
        print::note("there is more: ask for a shorter range with --from and --until\n");
    }
    Ok(())
}

fn query(args: &UsageArgs) -> String {
    let by = args.by.iter().map(|by| by.name()).collect::<Vec<_>>().join(",");
    let given = [
        ("from", args.from.clone()),
        ("until", args.until.clone()),
        ("per", args.hourly.then(|| "hour".to_owned())),
        ("by", Some(by).filter(|by| !by.is_empty())),
        ("key", args.key.clone()),
        ("tool", args.tool.clone()),
        ("tenant", args.tenant.clone()),
    ];
    let pairs = given.into_iter().filter_map(|(name, value)| {
        let value = value?;
        Some(format!("{name}={}", escaped(&value)))
    });
    pairs.collect::<Vec<_>>().join("&")
}

/// Subject that rows are not apart by.
const ALL: &str = "all";

fn table(args: &UsageArgs, listed: &Listed) -> Result<String, Failure> {
    let mut table = Table::new([
        "WHEN", "TENANT", "KEY", "TOOL", "CALLS", "FAILED", "CPU", "WALL", "OUTPUT", "TOKENS",
    ]);
    for row in &listed.rows {
        let row: Row = serde_json::from_str(row.get())
            .map_err(|error| Failure::because("the server's answer is not understood", &error))?;
        let when = row.at.get(..if args.hourly { 16 } else { 10 }).unwrap_or(&row.at).to_owned();
        let of = |subject: Option<String>| subject.unwrap_or_else(|| ALL.to_owned());
        let [calls, failed, cpu, wall, output, tokens] = numbers_of(&row.used);
        let (key, tool) = (of(row.key_id), of(row.tool));
        table.row([when, row.tenant, key, tool, calls, failed, cpu, wall, output, tokens]);
    }
    let [calls, failed, cpu, wall, output, tokens] = numbers_of(&listed.total);
    let [when, tenant, key, tool] = ["total", "", "", ""].map(str::to_owned);
    table.row([when, tenant, key, tool, calls, failed, cpu, wall, output, tokens]);
    Ok(table.fitted())
}

/// Used part of a budget, on one line.
fn budget_line(budget: &Budget) -> String {
    let amounts = [
        ("calls", &budget.calls),
        ("CPU seconds", &budget.cpu_seconds),
        ("bytes of output", &budget.output_bytes),
        ("tokens", &budget.tokens),
    ];
    let used: Vec<_> = amounts
        .into_iter()
        .filter_map(|(name, amount)| {
            let Amount { limit, used } = amount.as_ref()?;
            Some(format!("{used} of {limit} {name}"))
        })
        .collect();
    let of = budget.key_id.as_ref().map_or_else(String::new, |key| format!(" of key {key}"));
    let used = if used.is_empty() { "unlimited".to_owned() } else { used.join(", ") };
    let line = format!("budget{of} per {}: {used}; renewed {}", budget.per, budget.renewed_at);
    format!("{}\n", plain(&line))
}

fn numbers_of(used: &Used) -> [String; 6] {
    let seconds = |seconds: f64| format!("{seconds:.3} s");
    [
        used.calls.to_string(),
        used.failures.to_string(),
        seconds(used.cpu_seconds),
        seconds(used.wall_seconds),
        used.output_bytes.to_string(),
        used.input_tokens.saturating_add(used.output_tokens).to_string(),
    ]
}
