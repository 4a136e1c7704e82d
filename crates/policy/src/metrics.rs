//! Prometheus metrics of policy engines, read from their status at each scrape.

use std::sync::Arc;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};

use crate::{Counts, Engine, State};

/// Metrics of an engine and of the engines that it asks.
#[derive(Debug)]
pub struct Metrics(
    /// The engine.
    pub Arc<dyn Engine>,
);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.states(&mut encoder)?;
        self.canaries(&mut encoder)?;
        let open = ConstGauge::new(i64::try_from(self.0.fail_open().len()).unwrap_or(i64::MAX));
        let about = "Tenants whose calls run although policy gives no answer";
        let metric = encoder.encode_descriptor(
            "ringfence_policy_fail_open_tenants",
            about,
            None,
            open.metric_type(),
        )?;
        open.encode(metric)
    }
}

impl Metrics {
    /// State gauges: one for the current state of an engine, zero for all others.
    fn states(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let kind = ConstGauge::new(0_i64).metric_type();
        let about = "Policy engines by state";
        let mut family =
            encoder.encode_descriptor("ringfence_policy_engine_state", about, None, kind)?;
        for status in self.0.status() {
            for state in [State::Well, State::Stale, State::Troubled, State::Down] {
                let labels = [("engine", status.engine.as_str()), ("state", state.name())];
                let is_it = ConstGauge::new(i64::from(status.state == state));
                is_it.encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn canaries(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let kind = ConstCounter::new(0_u64).metric_type();
        let about = "Documents that candidate policies judged, by what came of it";
        let mut family = encoder.encode_descriptor("ringfence_policy_canary", about, None, kind)?;
        for report in self.0.canaries() {
            let Counts { same, different, unavailable, left_out } = report.counts;
            for (result, count) in [
                ("same", same),
                ("different", different),
                ("unavailable", unavailable),
                ("left_out", left_out),
            ] {
                let labels = [("canary", report.name.as_str()), ("result", result)];
                ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
