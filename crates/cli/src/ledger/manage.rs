//! `ringfence ledger`: checkpoints, keys and rotation.

use std::process::ExitCode;

use reqwest::Method;
use ringfence_store::SqliteStore;
use ringfence_types::Clock as _;
use serde_json::{Value, json};

use super::{Heads, growth, maintain, open};
use crate::{
    cli::{ClientArgs, DataArgs, LedgerCommand},
    client::Client,
    exit,
    failure::Failure,
    print,
    run::runtime,
    serve::{SystemClock, database},
    table::{Table, plain},
};

pub(crate) fn ledger(command: &LedgerCommand) -> Result<ExitCode, Failure> {
    let is_json = match command {
        LedgerCommand::Checkpoint { client }
        | LedgerCommand::Keys { client }
        | LedgerCommand::Consistency { client, .. }
        | LedgerCommand::Rotate { client } => client.json,
        LedgerCommand::BeginAnew(args)
        | LedgerCommand::AcceptRollback(args)
        | LedgerCommand::Repair(args) => args.json,
    };
    let told = runtime()?.block_on(carry_out(command));
    told.map_err(|failure| failure.in_json(is_json))?;
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
        LedgerCommand::Consistency { file, client } => {
            growth::consistency(&Client::find(client)?, file, client.json).await
        }
        LedgerCommand::Rotate { client } => rotate(client).await,
        LedgerCommand::BeginAnew(args) => maintain::begin_anew(args).await,
        LedgerCommand::AcceptRollback(args) => maintain::accept_rollback(args).await,
        LedgerCommand::Repair(args) => maintain::repair(args).await,
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

/// Rotates the key: by the server if one runs on the data directory or is named, else here.
async fn rotate(args: &ClientArgs) -> Result<(), Failure> {
    let rotated = match Client::find(args) {
        Ok(server) => server.post("/v1/ledger/rotate", &json!({})).await?,
        Err(_) if args.url.is_none() => rotate_here(&args.data).await?,
        Err(failure) => return Err(failure),
    };
    let text = |name: &str| plain(rotated[name].as_str().unwrap_or("-"));
    match args.json {
        true => print::line(&rotated.to_string()),
        false => print::line(&format!(
            "key {} signs from now on, after {}",
            text("keyid"),
            text("replaces")
        )),
    }
    Ok(())
}

/// Rotates the key without a server. The new key is on disk before the ledger names it, and moved
/// into place after; the next start completes an interrupted rotation.
async fn rotate_here(args: &DataArgs) -> Result<Value, Failure> {
    super::check_sqlite(args)?;
    let data = super::directory(args);
    let db = database(&data)?;
    let store = SqliteStore::open(db.clone(), &data.join("blobs")).await;
    let store = store.map_err(|error| Failure::because("cannot open the store", &error))?;
    let ledger = open(&data, std::sync::Arc::new(store), &Heads::default()).await?;
    let rotated = ledger.rotate(SystemClock.now()).await;
    let rotated = rotated
        .map_err(|error| Failure::because("the key of the ledger is still the same", &error))?;
    drop(ledger);
    db.close();
    Ok(json!({
        "keyid": rotated.key.hex(), "replaces": rotated.replaces.hex(), "named_at": rotated.entry,
    }))
}
