//! `ringfence ledger`: its checkpoint, its keys.

use std::process::ExitCode;

use reqwest::Method;
use ringfence_store::SqliteStore;
use ringfence_types::Clock as _;
use serde_json::{Value, json};

use super::{key, open};
use crate::{
    cli::{DataArgs, LedgerCommand},
    client::Client,
    exit,
    failure::Failure,
    print,
    run::runtime,
    serve::{SystemClock, database},
    table::Table,
};

pub(crate) fn ledger(command: &LedgerCommand) -> Result<ExitCode, Failure> {
    let (LedgerCommand::Checkpoint { client: crate::cli::ClientArgs { json, .. } }
    | LedgerCommand::Keys { client: crate::cli::ClientArgs { json, .. } }
    | LedgerCommand::Rotate { json, .. }) = command;
    let told = runtime()?.block_on(carry_out(command));
    told.map_err(|failure| failure.in_json(*json))?;
    Ok(ExitCode::from(exit::DONE))
}

async fn carry_out(command: &LedgerCommand) -> Result<(), Failure> {
    match command {
        LedgerCommand::Checkpoint { client } => {
            let server = Client::find(client)?;
            let request = server.request(Method::GET, "/v1/ledger/checkpoint");
            let note = server.text(server.send(request).await?).await?;
            match client.json {
                true => print::line(&json!({ "checkpoint": note }).to_string()),
                false => print::data(note.as_bytes()),
            }
            Ok(())
        }
        LedgerCommand::Keys { client } => {
            let keys: Value = Client::find(client)?.get("/v1/ledger/keys").await?;
            list(&keys, client.json);
            Ok(())
        }
        LedgerCommand::Rotate { data, json } => rotate(data, *json).await,
    }
}

fn list(keys: &Value, is_json: bool) {
    let all = keys["keys"].as_array().cloned().unwrap_or_default();
    if is_json {
        return all.iter().for_each(|key| print::line(&key.to_string()));
    }
    let mut table = Table::new(["KEY", "NAMED BY", "PUBLIC"]);
    for key in &all {
        let text = |name: &str| key[name].as_str().unwrap_or("-").to_owned();
        table.row([text("keyid"), format!("entry {}", key["named_at"]), text("public")]);
    }
    print::data(table.text().as_bytes());
}

/// The new key is on disk before the ledger names it, and in its place after; a crash in between is
/// settled by whoever opens the ledger next.
async fn rotate(args: &DataArgs, is_json: bool) -> Result<(), Failure> {
    let data = super::directory(args);
    let db = database(&data)?;
    let store = SqliteStore::open(db.clone(), &data.join("blobs")).await;
    let store = store.map_err(|error| Failure::because("cannot open the store", &error))?;
    let store: std::sync::Arc<dyn ringfence_store::Store> = std::sync::Arc::new(store);
    let old = open(&data, store.clone()).await?;
    let failed = |error| Failure::because("cannot write the ledger", &error);
    old.commit().await.map_err(failed)?;
    let next = key::prepare_next(&data)?;
    old.rotate(&next, SystemClock.now()).await.map_err(failed)?;
    let new = open(&data, store).await?;
    new.commit().await.map_err(failed)?;
    let (before, now) = (old.signer().id().hex(), new.signer().id().hex());
    drop((old, new));
    db.close();
    match is_json {
        true => print::line(&json!({"keyid": now, "replaces": before}).to_string()),
        false => print::line(&format!("key {now} signs from now on, after {before}")),
    }
    Ok(())
}
