//! `ringfence demo`: fills a server with calls as agents make them, and removes them.
//!
//! Contents: `scenes` are the calls, in order; `actors` make them with keys of their own; `cleanup`
//! removes what can be removed.
//!
//! Invariant: everything is a real call through the API. Whatever the demo makes carries its mark: the
//! persona `demo`, sessions and names that begin with `demo`, labels of keys that begin with `demo: `.

mod actors;
mod cleanup;
mod scenes;

use std::{process::ExitCode, time::Duration};

use ringfence_types::parse_duration;
use serde_json::json;

use self::actors::Actors;
use crate::{
    cli::DemoArgs,
    client::{Client, on_server},
    failure::Failure,
    print,
};

/// Persona of every call of the demo.
const PERSONA: &str = "demo";

/// Beginning of the labels of keys, and of the names of sandboxes.
const LABEL: &str = "demo: ";

/// The skill with an effect, registered for the demo.
const SKILL: &str = "demo_send_report";

/// Longest time over which the calls are spread.
const MAX_OVER: Duration = Duration::from_secs(24 * 3_600);

pub(crate) fn demo(args: &DemoArgs) -> Result<ExitCode, Failure> {
    on_server(&args.client, async |server| match args.remove {
        true => cleanup::remove(server, args.client.json).await,
        false => fill(server, over(args)?, args.client.json).await,
    })
}

/// Time over which the calls are spread; zero for as fast as they run.
fn over(args: &DemoArgs) -> Result<Duration, Failure> {
    let Some(text) = &args.over else { return Ok(Duration::ZERO) };
    let over = parse_duration(text).map_err(|error| Failure::new(format!("--over: {error}")))?;
    match over <= MAX_OVER {
        true => Ok(over),
        false => Err(Failure::new("--over: must be at most 24h")),
    }
}

async fn fill(server: &Client, over: Duration, is_json: bool) -> Result<(), Failure> {
    let actors = Actors::prepare(server).await?;
    let done = scenes::play(&actors, over).await?;
    let url = format!("{}/console", server.base());
    if is_json {
        print::line(&json!({"calls": done.calls, "held": done.held, "console": url}).to_string());
        return Ok(());
    }
    print::note(&format!(
        "\n{} calls made, {} of them waits for a person\n\
         look:     {url}\n\
         decide:   on the page Holds of the console, or with ringfence holds\n\
         remove:   ringfence demo --remove\n",
        done.calls, done.held
    ));
    Ok(())
}
