//! `ringfence events`: follows the events of all calls.

use std::process::ExitCode;

use reqwest::Method;
use serde_json::Value;

use crate::{
    cli::EventsArgs,
    client::{Client, escaped, pretty, short_id::ShortIds, sse::Events},
    exit,
    failure::Failure,
    print,
    run::runtime,
    table::plain,
};

pub(crate) fn events(args: &EventsArgs) -> Result<ExitCode, Failure> {
    let told = runtime()?.block_on(follow(args));
    told.map_err(|failure| failure.in_json(args.client.json))?;
    Ok(ExitCode::from(exit::DONE))
}

async fn follow(args: &EventsArgs) -> Result<(), Failure> {
    let client = Client::find(&args.client)?;
    let after = args.after.as_ref().map(|after| format!("?after={}", escaped(after)));
    let path = format!("/v1/events{}", after.unwrap_or_default());
    let response = client.send(client.request(Method::GET, &path)).await?;
    let mut events = Events::new(&client, response);
    let mut seen = 0;
    while args.limit.is_none_or(|limit| seen < limit) {
        let Some(event) = events.next().await? else { break };
        seen += 1;
        match args.client.json {
            true => print::line(&pretty::compact(&event.data)),
            false => print::line(&line(&event.id, &event.kind, &event.data)),
        }
    }
    Ok(())
}

fn line(id: &str, kind: &str, data: &str) -> String {
    let fact: Value = serde_json::from_str(data).unwrap_or_default();
    let text = |name: &str| fact[name].as_str().unwrap_or_default().to_owned();
    let at = text("at");
    let second = at.split('.').next().unwrap_or_default();
    let call = ShortIds::of(&[]).show(&text("call"));
    plain(&format!("{second}Z  {id:<10}  {kind:<20}  {call}"))
}
