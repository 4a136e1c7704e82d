//! `ringfence approvals`: lists and revokes approvals.

use std::process::ExitCode;

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{
    cli::ApprovalsArgs,
    client::{
        Client, escaped, pretty,
        short_id::{Kind, ShortIds},
    },
    exit,
    failure::Failure,
    print,
    run::runtime,
    style::Tone,
    table::Table,
};

pub(crate) fn approvals(args: &ApprovalsArgs) -> Result<ExitCode, Failure> {
    let told = runtime()?.block_on(async {
        let client = Client::find(&args.client)?;
        match &args.revoke {
            Some(id) => revoke(&client, id).await,
            None => list(&client, args).await,
        }
    });
    told.map_err(|failure| failure.in_json(args.client.json))?;
    Ok(ExitCode::from(exit::DONE))
}

/// A page of approvals.
#[derive(Debug, Deserialize)]
struct Listed {
    approvals: Vec<Box<RawValue>>,
    next_cursor: Option<String>,
}

async fn revoke(client: &Client, id: &str) -> Result<(), Failure> {
    let id = client.whole_id(Kind::Approval, id).await?;
    let request = client.request(Method::DELETE, &format!("/v1/approvals/{}", escaped(&id)));
    client.send(request).await?;
    Ok(())
}

async fn list(client: &Client, args: &ApprovalsArgs) -> Result<(), Failure> {
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/v1/approvals?limit=200&live={}{cursor}", !args.all);
        let listed: Listed = client.get(&path).await?;
        found.extend(listed.approvals);
        match listed.next_cursor {
            Some(next) => cursor = format!("&cursor={}", escaped(&next)),
            None => break,
        }
    }
    if args.client.json {
        found.iter().for_each(|approval| print::line(&pretty::compact(approval.get())));
    } else if found.is_empty() {
        print::note("no approvals\n");
    } else {
        print::data(table(&found).as_bytes());
    }
    Ok(())
}

fn table(approvals: &[Box<RawValue>]) -> String {
    let approvals = approvals.iter();
    let approvals: Vec<Value> = approvals
        .map(|approval| serde_json::from_str(approval.get()).unwrap_or_default())
        .collect();
    let ids: Vec<_> = approvals.iter().filter_map(|approval| approval["id"].as_str()).collect();
    let ids = ShortIds::of(&ids);
    let mut table = Table::new(["APPROVAL", "TOOL", "USED", "STATE"]);
    for approval in &approvals {
        let text = |name: &str| approval[name].as_str().unwrap_or("-").to_owned();
        let used = format!("{} of {}", approval["used"], approval["terms"]["uses"]);
        let bounds = approval["terms"]["summary"].as_str().unwrap_or("-").to_owned();
        let is_standing = text("state") == "standing";
        let tone = if is_standing { Tone::Good } else { Tone::Plain };
        table.toned_row([ids.show(&text("id")), text("tool"), used, text("state")], 3, tone);
        table.note(&bounds);
        table.note(&format!("key {}", text("key")));
    }
    table.fitted()
}
