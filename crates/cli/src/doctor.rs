//! `ringfence doctor`: checks sandbox support on this host with one sandbox that really runs.

mod bus;
mod docker;
mod processes;

use std::{collections::BTreeSet, fmt::Write, process::ExitCode, time::Duration};

use ringfence_edge::Tls;
use ringfence_jail::{
    host::{self, Finding, Mode, Report as HostReport, Status},
    scope, subordinate,
};
use ringfence_policy::local_permit;
use ringfence_sandbox::{Config, Error, Native, Program, Report, Request, SetupRules};
use ringfence_types::{Clock, Layer, LayerState, Layers, Limits, error_chain};
use serde_json::json;

use crate::{
    cli::{DoctorArgs, Wall},
    exit,
    failure::Failure,
    print,
    run::runtime,
    serve::{SystemClock, tls},
    settings::tls_files,
};

/// Result of running `true` in a sandbox.
#[derive(Debug)]
pub(crate) struct Trial {
    /// Layers that had to be given up.
    pub(crate) may_miss: Vec<Layer>,
    /// The layers, or the error.
    pub(crate) stood: Result<Layers, String>,
    /// Whether the setup timed out, or a helper did not answer.
    hung: bool,
    millis: f64,
}

impl Trial {
    /// Whether `run` and `serve` work here without `--allow-missing`.
    fn has_every_wall(&self) -> bool {
        self.stood.is_ok() && self.may_miss.is_empty()
    }
}

pub(crate) fn doctor(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    // The probes fork, so they come before any thread; they inspect what `run` would use.
    scope::enter();
    let mut host = host::examine();
    host.findings.push(open_files());
    host.findings.extend(certificate());
    subordinate::enter();
    let trial = try_out()?;
    host.findings.extend(bus::findings(args)?);
    host.findings.extend(docker::findings()?);
    host.findings.extend(processes::findings()?);
    let can_run = trial.has_every_wall();
    match args.json {
        true => print::line(&as_json(&host, &trial).to_string()),
        false => print::data(text(&host, &trial).as_bytes()),
    }
    Ok(ExitCode::from(if can_run { exit::DONE } else { exit::OURS }))
}

/// Whether the limit of open files suffices for a server of default size.
fn open_files() -> Finding {
    let limits = Limits::default();
    let each = u64::from(limits.processes).saturating_mul(limits.open_files);
    host::open_files(Config::service().most_sandboxes as u64, each)
}

/// The certificate that a server here would use, if the settings name one.
fn certificate() -> Option<Finding> {
    let files = tls_files()?;
    let name = "tls-certificate";
    let usable = Tls::load(&files.certificate, &files.key).map_err(|error| error_chain(&error));
    let state = usable.and_then(|tls| match tls.validity() {
        Some(validity) => tls::state(validity, SystemClock.now()),
        None => Err("its validity is not understood".to_owned()),
    });
    let path = files.certificate.display();
    Some(match state {
        Ok(state) => {
            Finding { name, status: Status::Ok, detail: format!("{path}: {state}"), fix: None }
        }
        Err(problem) => Finding {
            name,
            status: Status::Degraded,
            detail: format!("{path}: {problem}"),
            fix: Some("replace the files of tls.cert and tls.key; a running server notices".into()),
        },
    })
}

/// Runs `true` with every layer, and if the host lacks some, without those that may be missing.
pub(crate) fn try_out() -> Result<Trial, Failure> {
    let may_miss = Wall::ALL.iter().flat_map(|wall| wall.layers()).copied().collect();
    let runtime = runtime()?;
    let trial = runtime.block_on(async {
        let setup = SetupRules { max_hanging: 1, ..SetupRules::default() };
        let native = Native::open(Config { setup, ..Config::one_shot() });
        let strict = trial(&native, Vec::new()).await;
        let trial = match strict.stood {
            Ok(_) => strict,
            // A second one would hang as well, and might not die.
            Err(_) if strict.hung => hung(&native, strict).await,
            Err(_) => trial(&native, may_miss).await,
        };
        native.close().await;
        trial
    });
    Ok(trial)
}

async fn trial(native: &Native, may_miss: Vec<Layer>) -> Trial {
    let request = Request {
        may_miss: may_miss.clone(),
        ..Request::new(Program::Command(vec![b"true".to_vec()]))
    };
    let report = async { native.run(local_permit(), request).await?.wait().await }.await;
    match report {
        Ok(Report { layers, timings, .. }) => {
            let absent =
                |layer: &Layer| !matches!(layers.0.get(layer), Some(LayerState::Active(_)));
            let may_miss = may_miss.into_iter().filter(absent).collect();
            let millis = timings.total.as_micros() as f64 / 1e3;
            Trial { may_miss, stood: Ok(layers), hung: false, millis }
        }
        Err(error) => {
            let hung = matches!(error, Error::SetupTimeout(_) | Error::Unresponsive(_));
            let mut why = error.to_string();
            if let Some(cause) = std::error::Error::source(&error) {
                let _ = write!(why, ": {cause}");
            }
            Trial { may_miss, stood: Err(why), hung, millis: 0.0 }
        }
    }
}

/// Waits until it is known whether the hanging process dies when it is killed, and adds the remedy.
async fn hung(native: &Native, trial: Trial) -> Trial {
    let known = async {
        while native.available().is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let limit = SetupRules::default().kill_timeout + Duration::from_secs(1);
    let _ = tokio::time::timeout(limit, known).await;
    match native.available() {
        Ok(()) => trial,
        Err(why) => Trial { stood: Err(format!("{why}; {}", why.hint())), ..trial },
    }
}

fn as_json(host: &HostReport, trial: &Trial) -> serde_json::Value {
    let (layers, error) = match &trial.stood {
        Ok(layers) => (Some(layers), None),
        Err(error) => (None, Some(error)),
    };
    json!({
        "can_run": trial.has_every_wall(),
        "host": host,
        "trial": {
            "layers": layers,
            "error": error,
            "allow_missing": trial.may_miss,
            "total_secs": trial.millis / 1e3,
        },
    })
}

fn text(host: &HostReport, trial: &Trial) -> String {
    let layers: Vec<(String, &LayerState)> = match &trial.stood {
        Ok(layers) => layers.0.iter().map(|(layer, state)| (layer_name(*layer), state)).collect(),
        Err(_) => Vec::new(),
    };
    let names = host.findings.iter().map(|finding| finding.name.len());
    let width = names.chain(layers.iter().map(|(name, _)| name.len())).max().unwrap_or(0);
    let mut text = String::from("This host\n");
    let mut told = BTreeSet::new();
    for finding in &host.findings {
        text.push_str(&finding_lines(finding, width));
        // One remedy may apply to several findings.
        if let Some(fix) = finding.fix.as_ref().filter(|fix| told.insert(*fix)) {
            text.push_str(&row("", "", &format!("fix: {fix}"), width));
        }
    }
    text.push_str("\nA sandbox that was really run\n");
    for (name, state) in layers {
        let (status, detail) = match state {
            LayerState::Active(detail) => ("ok", detail),
            LayerState::Absent(reason) => ("missing", reason),
        };
        text.push_str(&row(&name, status, detail, width));
    }
    text.push_str(&format!("\n{}\n", verdict(host, trial)));
    text
}

fn finding_lines(finding: &Finding, width: usize) -> String {
    let status = match finding.status {
        Status::Ok => "ok",
        Status::Degraded => "degraded",
        Status::Missing => "missing",
    };
    row(finding.name, status, &finding.detail, width)
}

fn row(name: &str, status: &str, detail: &str, width: usize) -> String {
    let line = format!("  {name:<width$}  {status:<8}  {detail}");
    format!("{}\n", line.trim_end())
}

pub(crate) fn layer_name(layer: Layer) -> String {
    let value = serde_json::to_value(layer).unwrap_or_default();
    value.as_str().unwrap_or_default().replace('_', "-")
}

fn verdict(host: &HostReport, trial: &Trial) -> String {
    let how = match host.mode {
        Mode::Root => "as root",
        Mode::Rootless => "rootless",
        Mode::None => "although the host looks unfit",
    };
    match &trial.stood {
        Err(why) => format!("verdict: sandboxes cannot run here: {why}"),
        Ok(_) if trial.may_miss.is_empty() => {
            format!("verdict: sandboxes run here, {how}, with every wall ({:.1} ms)", trial.millis)
        }
        Ok(_) => format!(
            "verdict: `run` and `serve` refuse here, {how}, unless given{}",
            allowances(&trial.may_miss)
        ),
    }
}

/// Names of layers, separated by commas.
pub(crate) fn layer_names(layers: &[Layer]) -> String {
    layers.iter().map(|layer| layer_name(*layer)).collect::<Vec<_>>().join(", ")
}

/// The flags that allow a run without these layers.
pub(crate) fn allowances(may_miss: &[Layer]) -> String {
    Wall::ALL
        .iter()
        .filter(|wall| wall.layers().iter().any(|layer| may_miss.contains(layer)))
        .map(|wall| format!(" --allow-missing {}", wall.name()))
        .collect()
}
