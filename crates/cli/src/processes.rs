//! `ringfence processes`: the servers on the same database.

use std::{collections::BTreeSet, process::ExitCode};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    cli::ProcessesArgs,
    client::{on_server, pretty},
    failure::Failure,
    print,
    table::Table,
};

#[derive(Debug, Deserialize)]
struct Listed {
    processes: Vec<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
struct Process {
    id: u64,
    is_own: bool,
    address: Option<String>,
    role: String,
    version: String,
    policy: Option<String>,
    started_at: String,
}

pub(crate) fn processes(args: &ProcessesArgs) -> Result<ExitCode, Failure> {
    on_server(&args.client, async |client| {
        let listed: Listed = client.get("/v1/processes").await?;
        if args.client.json {
            listed.processes.iter().for_each(|row| print::line(&pretty::compact(row.get())));
            return Ok(());
        }
        let rows: Vec<Process> = listed
            .processes
            .iter()
            .map(|row| serde_json::from_str(row.get()))
            .collect::<Result<_, _>>()
            .map_err(|error| Failure::because("the server's answer is not understood", &error))?;
        print::data(table(&rows).fitted().as_bytes());
        let policies: BTreeSet<_> = rows.iter().filter_map(|row| row.policy.as_ref()).collect();
        if policies.len() > 1 {
            print::note("the rules differ: held calls that were approved may be held again\n");
        }
        Ok(())
    })
}

fn table(rows: &[Process]) -> Table<6> {
    let mut table = Table::new(["PROCESS", "ROLE", "VERSION", "POLICY", "STARTED", "ADDRESS"]);
    for row in rows {
        let own = if row.is_own { " (answers)" } else { "" };
        let policy = row.policy.as_deref().unwrap_or("-");
        // The algorithm and the first digits tell them apart.
        let policy = policy.get(..19).unwrap_or(policy).to_owned();
        let address = row.address.clone().unwrap_or_else(|| "-".to_owned());
        let (role, version, started) =
            (row.role.clone(), row.version.clone(), row.started_at.clone());
        table.row([format!("{}{own}", row.id), role, version, policy, started, address]);
    }
    table
}
