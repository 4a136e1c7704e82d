//! `ringfence policy`: tests, replays, shadows and explains rules.

mod case;
mod explain;
mod replay;
mod show;
mod state;
mod test;

use std::{path::Path, process::ExitCode};

use ringfence_policy::Bundle;

use crate::{cli::PolicyCommand, client::on_server, exit, failure::Failure, run::runtime};

pub(crate) fn policy(command: &PolicyCommand) -> Result<ExitCode, Failure> {
    match command {
        PolicyCommand::Show { server: true, tenant, client } => {
            on_server(client, async |server| show::in_force(server, tenant, client.json).await)
        }
        PolicyCommand::Show { server: false, client, .. } => Ok(show::built_in(client.json)),
        PolicyCommand::Status { client } => {
            let told = runtime()?.block_on(state::status(client));
            told.map(|()| ExitCode::from(exit::DONE))
                .map_err(|failure| failure.in_json(client.json))
        }
        PolicyCommand::Canary { client } => {
            let told = runtime()?.block_on(state::canary(client));
            told.map(|()| ExitCode::from(exit::DONE))
                .map_err(|failure| failure.in_json(client.json))
        }
        PolicyCommand::Test { folder, coverage, json } => {
            test::test(folder, *coverage, *json).map_err(|failure| failure.in_json(*json))
        }
        PolicyCommand::Replay { bundle, since, until, tool, tenant, limit, client } => {
            let asked = replay::Asked {
                folder: bundle,
                since: since.as_deref(),
                until: until.as_deref(),
                tool: tool.as_deref(),
                tenant: tenant.as_deref(),
                limit: *limit as usize,
            };
            let told = runtime()?.block_on(replay::replay(&asked, client));
            told.map_err(|failure| failure.in_json(client.json))
        }
        PolicyCommand::Case { id, output, client } => {
            let told = runtime()?.block_on(case::case(id, output.as_deref(), client));
            told.map_err(|failure| failure.in_json(client.json))
        }
        PolicyCommand::Explain { id, client } => {
            let told = runtime()?.block_on(explain::explain(id, client));
            told.map_err(|failure| failure.in_json(client.json))
        }
    }
}

/// The rules of a folder, or all problems of its files.
fn read(folder: &Path) -> Result<Bundle, Failure> {
    Bundle::from_folder(folder).map_err(|invalid| unusable(folder, &invalid))
}

fn unusable(folder: &Path, invalid: &ringfence_policy::InvalidBundle) -> Failure {
    let problems = invalid.0.iter().map(ToString::to_string).collect();
    Failure::listing(format!("the policy `{}` cannot be used", folder.display()), problems)
}
