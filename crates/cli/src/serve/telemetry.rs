//! Telemetry of the server: metrics beside the engine's, and the exporter of traces.

use std::{sync::Arc, time::Duration};

use prometheus_client::{metrics::info::Info, registry::Registry};
use ringfence_engine::Telemetry;
use ringfence_otlp::Exporter;
use ringfence_policy::{Engine, Metrics};
use ringfence_sqlite::Db;

use crate::{failure::Failure, settings::Settings};

/// Time for sending the last traces at shutdown.
pub(super) const TRACES_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn open(
    settings: &Settings,
    db: &Db,
    policy: &Arc<dyn Engine>,
) -> Result<(Telemetry, Option<Exporter>), Failure> {
    let mut registry = Registry::default();
    // The library appends `_info`.
    let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("ringfence_build", "The program that runs", build);
    db.register_metrics(&mut registry);
    registry.register_collector(Box::new(Metrics(policy.clone())));
    let exporter = settings.otlp.clone().map(Exporter::start).transpose();
    let exporter = exporter.map_err(|error| Failure::because("cannot send traces", &error))?;
    if let Some(exporter) = &exporter {
        exporter.counts().register(&mut registry);
    }
    let spans = exporter.as_ref().map(Exporter::spans);
    Ok((Telemetry { registry, spans }, exporter))
}
