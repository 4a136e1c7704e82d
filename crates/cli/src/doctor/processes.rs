//! Servers on the database that the settings name: whether they run the same rules and version.

use std::collections::BTreeSet;

use ringfence_jail::host::{Finding, Status};
use ringfence_store::{PostgresStore, Process, Processes as _};
use ringfence_types::error_chain;

use crate::{cli::DataArgs, failure::Failure, run::runtime, settings};

/// Findings about the servers on the database; none with SQLite.
pub(super) fn findings() -> Result<Vec<Finding>, Failure> {
    // A question about the host alone does not depend on settings that are right.
    let Ok((Some(url), blobs)) = settings::store(&DataArgs::default()) else {
        return Ok(Vec::new());
    };
    let blobs = blobs.to_read()?;
    let found = runtime()?.block_on(async {
        let store = PostgresStore::read(url.clone(), blobs).await?;
        store.processes().await
    });
    Ok(vec![match found {
        Ok(processes) => compare(&processes),
        Err(error) => finding(
            Status::Degraded,
            format!("{url} cannot be read: {}", error_chain(&error)),
            Some("start the database, or prepare it: ringfence migrate"),
        ),
    }])
}

fn compare(processes: &[Process]) -> Finding {
    let policies: BTreeSet<_> =
        processes.iter().filter_map(|process| Some(process.info.policy?.hex())).collect();
    let versions: BTreeSet<_> = processes.iter().map(|process| &process.info.version).collect();
    let count = processes.len();
    let hint = "`ringfence processes` lists them; give all servers the same rules and version";
    match (policies.len(), versions.len()) {
        (0 | 1, 0 | 1) => finding(Status::Ok, format!("{count} servers with the same rules"), None),
        (rules @ 2.., _) => {
            let detail = format!("{count} servers with {rules} different sets of rules");
            finding(Status::Degraded, detail, Some(hint))
        }
        (_, versions) => {
            let detail = format!("{count} servers of {versions} versions");
            finding(Status::Degraded, detail, Some(hint))
        }
    }
}

fn finding(status: Status, detail: String, fix: Option<&str>) -> Finding {
    Finding { name: "servers", status, detail, fix: fix.map(str::to_owned) }
}
