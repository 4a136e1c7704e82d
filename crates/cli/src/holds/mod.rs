//! `ringfence holds`, `approve`, `deny` and `approvals`: held calls and approvals.

mod approvals;
mod conditions;
mod decide;
mod show;

use std::process::ExitCode;

use serde::Deserialize;
use serde_json::value::RawValue;

pub(crate) use self::{
    approvals::approvals,
    decide::{approve, deny},
};
use crate::{
    age,
    cli::HoldsArgs,
    client::{
        Client, escaped, pretty,
        short_id::{Kind, ShortIds},
    },
    exit,
    failure::Failure,
    print,
    run::runtime,
    table::{Table, cut},
};

/// The shown part of a hold.
#[derive(Debug, Deserialize)]
pub(super) struct Hold {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) version: String,
    pub(super) digest: String,
    pub(super) args: Box<RawValue>,
    pub(super) asked_args: Option<Box<RawValue>>,
    pub(super) pure: bool,
    pub(super) key: String,
    #[serde(default)]
    pub(super) key_label: String,
    pub(super) persona_id: Option<String>,
    pub(super) session_id: Option<String>,
    pub(super) reasons: Vec<Reason>,
    pub(super) policy: Option<String>,
    pub(super) since: String,
    pub(super) expires_at: String,
    pub(super) approvals_needed: u32,
    pub(super) votes: Vec<Vote>,
    #[serde(default)]
    pub(super) changed: Vec<String>,
    pub(super) shown: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Reason {
    pub(super) rule: String,
    pub(super) message: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Vote {
    pub(super) by: String,
    #[serde(default)]
    pub(super) label: String,
    pub(super) person: Option<String>,
    pub(super) at: String,
}

#[derive(Debug, Deserialize)]
struct Listed {
    holds: Vec<Box<RawValue>>,
    next_cursor: Option<String>,
}

pub(crate) fn holds(args: &HoldsArgs) -> Result<ExitCode, Failure> {
    let told = runtime()?.block_on(async {
        let client = Client::find(&args.client)?;
        let id = match &args.id {
            Some(id) => Some(client.whole_id(Kind::HeldCall, id).await?),
            None => None,
        };
        match &id {
            Some(id) if args.reevaluate => decide::reevaluate(&client, id, args.client.json).await,
            Some(id) => one(&client, id, args.client.json).await,
            None => list(&client, args).await,
        }
    });
    told.map_err(|failure| failure.in_json(args.client.json))?;
    Ok(ExitCode::from(exit::DONE))
}

/// The JSON of a hold, and the parsed hold.
async fn read(client: &Client, id: &str) -> Result<(Box<RawValue>, Hold), Failure> {
    let text: Box<RawValue> = client.get(&format!("/v1/holds/{}", escaped(id))).await?;
    let hold = understood(&text)?;
    Ok((text, hold))
}

fn understood(text: &RawValue) -> Result<Hold, Failure> {
    serde_json::from_str(text.get())
        .map_err(|error| Failure::because("the server's answer is not understood", &error))
}

async fn one(client: &Client, id: &str, is_json: bool) -> Result<(), Failure> {
    let (text, hold) = read(client, id).await?;
    match is_json {
        true => print::line(&pretty::compact(text.get())),
        false => print::data(show::hold(&hold).as_bytes()),
    }
    Ok(())
}

async fn list(client: &Client, args: &HoldsArgs) -> Result<(), Failure> {
    let (mut cursor, mut found) = (String::new(), Vec::new());
    loop {
        let listed: Listed = client.get(&format!("/v1/holds?limit=200{cursor}")).await?;
        for text in &listed.holds {
            match args.client.json {
                true => print::line(&pretty::compact(text.get())),
                false => found.push(understood(text)?),
            }
        }
        match listed.next_cursor {
            Some(next) => cursor = format!("&cursor={}", escaped(&next)),
            None => break,
        }
    }
    match (args.client.json, found.is_empty()) {
        (true, _) => {}
        (false, true) => print::note("nothing waits for a decision\n"),
        (false, false) => print::data(table(&found).fitted().as_bytes()),
    }
    Ok(())
}

/// A row for each hold, with its arguments and the reason beneath it.
fn table(holds: &[Hold]) -> Table<6> {
    let ids = ShortIds::of(&holds.iter().map(|hold| hold.id.as_str()).collect::<Vec<_>>());
    let mut table = Table::new(["CALL", "TOOL", "BY", "WHEN", "LEFT", "APPROVED"]);
    for hold in holds {
        let approved = format!("{} of {}", hold.votes.len(), hold.approvals_needed);
        let (tool, by) = (cut(&hold.tool, 20), cut(&hold.key_label, 16));
        let (when, left) = (age::ago(&hold.since), age::until(&hold.expires_at));
        table.row([ids.show(&hold.id), tool, by, when, left, approved]);
        table.folded(&pretty::compact(hold.args.get()));
        hold.reasons.first().into_iter().for_each(|reason| table.note(&reason.message));
    }
    table
}
