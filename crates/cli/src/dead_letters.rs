//! `ringfence dlq`: messages on the bus that could not be handled.

use std::process::ExitCode;

use reqwest::Method;
use serde_json::Value;

use crate::{
    age,
    cli::{ClientArgs, DlqCommand},
    client::{Client, escaped},
    exit,
    failure::Failure,
    print,
    run::runtime,
    table::{Table, cut},
};

/// Characters of a cause in a table.
const CAUSE_CHARS: usize = 200;

pub(crate) fn dlq(command: &DlqCommand) -> Result<ExitCode, Failure> {
    let (DlqCommand::List { client, .. }
    | DlqCommand::Replay { client, .. }
    | DlqCommand::Rm { client, .. }) = command;
    let done = runtime()?.block_on(carry_out(command, client));
    done.map_err(|failure| failure.in_json(client.json))?;
    Ok(ExitCode::from(exit::DONE))
}

async fn carry_out(command: &DlqCommand, args: &ClientArgs) -> Result<(), Failure> {
    let client = Client::find(args)?;
    match command {
        DlqCommand::List { topic: None, .. } => topics(&client, args.json).await,
        DlqCommand::List { topic: Some(topic), .. } => list(&client, topic, args.json).await,
        DlqCommand::Replay { topic, ids, .. } => {
            for id in ids {
                let path = format!("/v1/admin/dlq/{}/{id}/reprocess", escaped(topic));
                client.send(client.request(Method::POST, &path)).await?;
            }
            Ok(())
        }
        DlqCommand::Rm { topic, ids, all, .. } => {
            let all = all.then(|| format!("/v1/admin/dlq/{}", escaped(topic)));
            let one = |id: &u64| format!("/v1/admin/dlq/{}/{id}", escaped(topic));
            for path in all.into_iter().chain(ids.iter().map(one)) {
                client.send(client.request(Method::DELETE, &path)).await?;
            }
            Ok(())
        }
    }
}

async fn topics(client: &Client, is_json: bool) -> Result<(), Failure> {
    let listed: Value = client.get("/v1/admin/dlq").await?;
    let topics = listed["topics"].as_array().cloned().unwrap_or_default();
    if is_json {
        topics.iter().for_each(|topic| print::line(&topic.to_string()));
        return Ok(());
    }
    let mut table = Table::new(["TOPIC", "LETTERS"]);
    for topic in &topics {
        let name = topic["topic"].as_str().unwrap_or("-").to_owned();
        table.row([name, topic["count"].to_string()]);
    }
    print::data(table.fitted().as_bytes());
    Ok(())
}

async fn list(client: &Client, topic: &str, is_json: bool) -> Result<(), Failure> {
    let mut table = Table::new(["ID", "AGE", "GROUP", "ATTEMPTS"]);
    let mut after = 0;
    loop {
        let path = format!("/v1/admin/dlq/{}?after={after}", escaped(topic));
        let page: Value = client.get(&path).await?;
        for letter in page["messages"].as_array().into_iter().flatten() {
            if is_json {
                print::line(&letter.to_string());
                continue;
            }
            let text = |name: &str| letter[name].as_str().unwrap_or("-").to_owned();
            let age = age::ago(&text("created_at"));
            let (id, attempts) = (letter["id"].to_string(), letter["attempts"].to_string());
            table.row([id, age, text("group"), attempts]);
            table.note(&cut(&text("error"), CAUSE_CHARS));
        }
        let Some(next) = page["next"].as_u64() else { break };
        after = next;
    }
    if !is_json {
        print::data(table.fitted().as_bytes());
    }
    Ok(())
}
