//! `ringfence config show`: every setting, its value and its source.

use std::process::ExitCode;

use ringfence_api::Setting;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    keys::Key,
    layers as read_layers,
    layers::{Given, Layers},
    policy, read,
};
use crate::{
    cli::{ClientArgs, ConfigCommand, DataArgs},
    client::{Client, on_server},
    exit,
    failure::Failure,
    print,
    problems::Problems,
    table::Table,
};

pub(crate) fn config(command: &ConfigCommand) -> Result<ExitCode, Failure> {
    let ConfigCommand::Show { json, server, url, settings } = command;
    if *server {
        let data = DataArgs { data: settings.data.data.clone() };
        let args = ClientArgs { url: url.clone(), data, json: *json, ..ClientArgs::default() };
        return on_server(&args, async |server| running(server, *json).await);
    }
    let mut problems = Problems::default();
    let layers = read_layers(settings, &mut problems);
    read::settings(&layers, &mut problems);
    show(&settings_of(&layers), *json)?;
    // Problems come after the table, which helps to find them.
    problems.none().map_err(|failure| failure.in_json(*json))?;
    Ok(ExitCode::from(exit::DONE))
}

/// Prints the settings of a running server.
async fn running(server: &Client, is_json: bool) -> Result<(), Failure> {
    let listed: Listed = server.get("/v1/config").await?;
    show(&listed.settings, is_json)
}

#[derive(Debug, Deserialize)]
struct Listed {
    settings: Vec<Setting>,
}

fn show(settings: &[Setting], is_json: bool) -> Result<(), Failure> {
    if !is_json {
        print::data(table(settings).as_bytes());
        return Ok(());
    }
    for setting in settings {
        let text = serde_json::to_string(setting)
            .map_err(|error| Failure::because("cannot write the setting", &error))?;
        print::line(&text);
    }
    Ok(())
}

/// Every setting for display.
pub(super) fn settings_of(layers: &Layers) -> Vec<Setting> {
    let tables = tables(layers).into_iter().map(|[name, value, source]| Setting {
        name,
        value: json!(value),
        source,
        variable: None,
        about: None,
    });
    layers.rows().map(|(key, given)| setting(key, given)).chain(tables).collect()
}

/// Name, value and file of the policy tables.
fn tables(layers: &Layers) -> Vec<[String; 3]> {
    let Some((table, path)) = layers.policy() else { return Vec::new() };
    let rows = policy::rows(table).into_iter().filter(|(name, _)| name != "policy.folder");
    rows.map(|(name, value)| [name, value, path.display().to_string()]).collect()
}

fn setting(key: &Key, given: &Given) -> Setting {
    let values = shown(key, given);
    let value = match (key.is_list, values.first()) {
        (true, _) => json!(values),
        (false, value) => json!(value),
    };
    Setting {
        name: key.name.to_owned(),
        value,
        source: given.source.words(),
        variable: Some(key.variable()),
        about: Some(key.about.to_owned()),
    }
}

/// Displayed values; a secret keeps only its name, if it has one.
fn shown(key: &Key, given: &Given) -> Vec<String> {
    let hidden = |value: &String| match value.split_once('=') {
        Some((name, _)) => format!("{name}=***"),
        None => "***".to_owned(),
    };
    match key.is_secret {
        true => given.values.iter().map(hidden).collect(),
        false => given.values.clone(),
    }
}

fn table(settings: &[Setting]) -> String {
    let mut table = Table::new(["SETTING", "VALUE", "FROM"]);
    for Setting { name, value, source, .. } in settings {
        let value = match value {
            Value::Array(values) => {
                values.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
            }
            value => value.as_str().unwrap_or_default().to_owned(),
        };
        let value = if value.is_empty() { "-".to_owned() } else { value };
        table.row([name.clone(), value, source.clone()]);
    }
    table.text()
}
