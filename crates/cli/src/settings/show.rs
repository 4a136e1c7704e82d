//! `ringfence config show`: every setting, its value, and where that came from.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::{
    keys::Key,
    layers as read_layers,
    layers::{Given, Layers},
    policy, read,
};
use crate::{cli::ConfigCommand, exit, failure::Failure, print, problems::Problems, table::Table};

pub(crate) fn config(command: &ConfigCommand) -> Result<ExitCode, Failure> {
    let ConfigCommand::Show { json, settings } = command;
    let mut problems = Problems::default();
    let layers = read_layers(settings, &mut problems);
    read::settings(&layers, &mut problems);
    match json {
        true => objects(&layers).for_each(|object| print::line(&object.to_string())),
        false => print::data(table(&layers).as_bytes()),
    }
    // What is wrong is told after what is there: the table is how one finds it.
    problems.none().map_err(|failure| failure.in_json(*json))?;
    Ok(ExitCode::from(exit::DONE))
}

fn objects(layers: &Layers) -> impl Iterator<Item = Value> {
    let plain = layers.rows().map(|(key, given)| object(key, given));
    plain.chain(tables(layers).into_iter().map(|[name, value, source]| {
        json!({"name": name, "value": value, "source": source, "variable": null, "about": null})
    }))
}

/// Name, value and file of all that is in tables with names that we do not choose.
fn tables(layers: &Layers) -> Vec<[String; 3]> {
    let Some((table, path)) = layers.policy() else { return Vec::new() };
    let rows = policy::rows(table).into_iter().filter(|(name, _)| name != "policy.folder");
    rows.map(|(name, value)| [name, value, path.display().to_string()]).collect()
}

fn object(key: &Key, given: &Given) -> Value {
    let values = shown(key, given);
    let value = match (key.is_list, values.first()) {
        (true, _) => json!(values),
        (false, value) => json!(value),
    };
    json!({
        "name": key.name,
        "value": value,
        "source": given.source.words(),
        "variable": key.variable(),
        "about": key.about,
    })
}

/// A secret keeps its name, if it has one, and nothing else.
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

fn table(layers: &Layers) -> String {
    let mut table = Table::new(["SETTING", "VALUE", "FROM"]);
    for (key, given) in layers.rows() {
        let value = match given.values.is_empty() {
            true => "-".to_owned(),
            false => shown(key, given).join(", "),
        };
        table.row([key.name.to_owned(), value, given.source.words()]);
    }
    tables(layers).into_iter().for_each(|row| table.row(row));
    table.text()
}
