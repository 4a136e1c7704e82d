//! The container engine, if the settings name one: whether it answers, and what it offers.

use ringfence_jail::host::{Finding, Status};
use ringfence_sandbox::{Docker, EngineInfo};
use ringfence_types::error_chain;

use crate::{cli::SettingsArgs, failure::Failure, run::runtime, settings::Settings};

/// Findings about the engine; none without one.
pub(super) fn findings() -> Result<Vec<Finding>, Failure> {
    // A question about the host alone does not depend on settings that are right.
    let Ok(settings) = Settings::load(&SettingsArgs::default()) else { return Ok(Vec::new()) };
    let Some(config) = settings.docker else { return Ok(Vec::new()) };
    let socket = config.socket.display().to_string();
    let wanted = config.runtime.clone();
    let asked = runtime()?.block_on(Docker::new(config).ask());
    Ok(match asked {
        Ok(info) => about(&info, wanted.as_deref()),
        Err(error) => {
            let detail = format!("{socket}: {}", error_chain(&error));
            let fix = "start the engine, and let the user of the server use its socket".to_owned();
            vec![Finding { name: "docker", status: Status::Missing, detail, fix: Some(fix) }]
        }
    })
}

fn about(info: &EngineInfo, wanted: Option<&str>) -> Vec<Finding> {
    let detail = format!("{}, API {}, storage {}", info.version, info.api, info.storage);
    let mut findings = vec![Finding { name: "docker", status: Status::Ok, detail, fix: None }];
    let has_wanted = wanted.is_none_or(|wanted| info.runtimes.iter().any(|name| name == wanted));
    let detail = format!("{} (default {})", info.runtimes.join(", "), info.default_runtime);
    findings.push(Finding {
        name: "docker-runtimes",
        status: if has_wanted { Status::Ok } else { Status::Missing },
        detail,
        fix: wanted
            .filter(|_| !has_wanted)
            .map(|wanted| format!("install `{wanted}` and name it in the engine's daemon.json")),
    });
    let limits = [
        ("memory and swap", info.memory_limit),
        ("processors", info.cpu_quota),
        ("processes", info.pids_limit),
    ];
    let missing: Vec<_> = limits.iter().filter(|(_, has)| !has).map(|(name, _)| *name).collect();
    let cgroups = if info.cgroup_v2 { "cgroup v2" } else { "cgroup v1" };
    findings.push(match missing.is_empty() {
        true => Finding {
            name: "docker-limits",
            status: Status::Ok,
            detail: cgroups.to_owned(),
            fix: None,
        },
        false => Finding {
            name: "docker-limits",
            status: Status::Degraded,
            detail: format!("{cgroups}, which cannot limit {}", missing.join(", ")),
            fix: Some("enable the cgroup controllers for the engine".to_owned()),
        },
    });
    findings
}
