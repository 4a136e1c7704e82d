//! Memory and CPU of a sandbox, as plots that grow while the page is open.
//!
//! The server keeps no history: a page sends the samples that it has, and gets them back with one more.

use std::{sync::Arc, time::Duration};

use askama::Template;
use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{StatusCode, Uri};
use ringfence_edge::{
    Problem,
    identity::{self, May},
    path::Named,
    query::Query,
};
use ringfence_engine::sandbox::session::{Session, SessionId};

use crate::{
    Shared,
    html::{self, Html},
    plot, shell,
};

/// Samples of a plot.
const MAX_SAMPLES: usize = 60;

/// One look at a sandbox: uptime and CPU time in milliseconds, memory in KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    uptime: u64,
    cpu: u64,
    memory: u64,
}

impl Sample {
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(|number| number.parse::<u64>().ok());
        let mut next = || numbers.next().flatten().filter(|number| *number < 1 << 48);
        let (uptime, cpu, memory) = (next()?, next()?, next()?);
        Some(Self { uptime, cpu, memory })
    }
}

/// Usage of a sandbox, now and while the page was open.
#[derive(Debug, Template)]
#[template(path = "sandbox_metrics.html")]
pub(super) struct MetricsView {
    id: String,
    /// Samples for the next request.
    seen: String,
    memory: String,
    memory_bar: Html,
    memory_plot: Html,
    cpu: String,
    cpu_plot: Html,
    processes: String,
}

impl MetricsView {
    /// Usage now, after the samples that a page has seen.
    pub(super) async fn of(session: &Session, seen: &str) -> Self {
        let info = session.info();
        let now = session.metrics().await.ok();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(0);
        let memory = now.as_ref().and_then(|now| now.memory_now).map_or(0, |memory| memory.0);
        let mut samples: Vec<_> = seen.split('~').filter_map(Sample::parse).collect();
        samples.extend(now.as_ref().map(|now| Sample {
            uptime: millis(now.uptime),
            cpu: now.cpu_total.map_or(0, millis),
            memory: memory >> 10,
        }));
        samples.drain(..samples.len().saturating_sub(MAX_SAMPLES));
        let shares = cpu_shares(&samples);
        let memory_line = fill(samples.iter().map(|sample| sample.memory as f64));
        let text = |sample: &Sample| format!("{}.{}.{}", sample.uptime, sample.cpu, sample.memory);
        let limit = info.limits.memory.0;
        Self {
            id: info.id.as_str().to_owned(),
            seen: samples.iter().map(text).collect::<Vec<_>>().join("~"),
            memory: format!("{} of {}", html::bytes(memory), html::bytes(limit)),
            memory_bar: html::bar(memory as f64, limit as f64),
            memory_plot: plot::lines(&[("busy", memory_line)], "Memory"),
            cpu: shares
                .last()
                .map_or_else(|| "–".to_owned(), |share| format!("{:.0} %", share * 100.0)),
            cpu_plot: plot::lines(&[("busy", fill(shares.into_iter()))], "CPU"),
            processes: info.programs.to_string(),
        }
    }
}

/// Share of a processor between each sample and the next.
fn cpu_shares(samples: &[Sample]) -> Vec<f64> {
    let share = |pair: &[Sample]| {
        let time = pair[1].uptime.saturating_sub(pair[0].uptime).max(1);
        pair[1].cpu.saturating_sub(pair[0].cpu) as f64 / time as f64
    };
    samples.windows(2).map(share).collect()
}

/// Values at the right end of a plot.
fn fill(values: impl Iterator<Item = f64>) -> Vec<Option<f64>> {
    let values: Vec<_> = values.map(Some).collect();
    let mut filled = vec![None; MAX_SAMPLES.saturating_sub(values.len())];
    filled.extend(values);
    filled
}

/// Status with which htmx ends polling.
fn stop_polling() -> StatusCode {
    StatusCode::from_u16(286).unwrap_or(StatusCode::NO_CONTENT)
}

/// Sends the usage with one more sample, for a part of the page.
pub(crate) async fn metrics(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<SessionId>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let seen = query.optional::<String>("seen").unwrap_or_default();
    query.finish()?;
    // A page that is still open asks once more after the end of its sandbox: it is told to stop.
    let Some(sandbox) = shared.engine.sandbox(caller.principal(), &id) else {
        return Ok(stop_polling().into_response());
    };
    let view = MetricsView::of(&sandbox.session, &seen).await;
    Ok(shell::render(StatusCode::OK, &view))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_page_are_numbers_or_left_out() {
        assert_eq!(
            Sample::parse("1000.20.300"),
            Some(Sample { uptime: 1000, cpu: 20, memory: 300 })
        );
        for text in ["", "1.2", "a.b.c", "1.2.<b>", "99999999999999999999.1.1"] {
            assert_eq!(Sample::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_share_is_the_cpu_time_of_the_time_that_passed() {
        let sample = |uptime, cpu| Sample { uptime, cpu, memory: 0 };
        assert_eq!(cpu_shares(&[sample(0, 0), sample(1_000, 500), sample(900, 100)]), [0.5, 0.0]);
    }
}
