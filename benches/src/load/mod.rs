//! Load on running services: Ringfence with its whole path, and peers that do less.
//!
//! `cargo xtask bench load` starts the peers, writes a plan, starts this binary with the argument
//! `load` and prints the tables. Nothing is timed before its answer was checked.

mod account;
mod closed;
mod findings;
mod http;
mod idle;
mod open;
mod plan;
mod service;
mod sqlite;
mod target;
mod usage;
mod wrk;

use std::{ffi::OsStr, process::Command, time::Duration};

use anyhow::{Context, Result};

use self::{
    findings::{Failed, Findings, Idle, Offered},
    open::Offer,
    plan::{Plan, Row},
    service::Service,
    target::Target,
};

/// Connections at the fixed rate: far more than are busy at once unless the service stalls.
const PACED_CONNECTIONS: usize = 32;
/// Time that a request at twice the capacity waits for a free connection.
const SEND_TIMEOUT: Duration = Duration::from_millis(20);

/// Measures everything in the plan.
pub(crate) fn measure(plan: &Plan) -> Result<Findings> {
    let mut found = Findings::default();
    found.starts_us = starts(plan, &mut found.failed);
    let services = start_all(plan, &mut found);
    let rows = checked_rows(plan, &services, &mut found.failed);
    let (loops, failed) = closed::measure(plan, &rows);
    found.loops = loops;
    found.failed.extend(failed);
    for (row, service) in &rows {
        let paced = paced(plan, row, service);
        note(&mut found.paced, &mut found.failed, &row.name, paced);
        if let (Some(connections), Some(rate)) = (row.flood, closed::capacity(&found.loops, row)) {
            let flood = flood(plan, row, service, rate, connections);
            note(&mut found.floods, &mut found.failed, &row.name, flood);
        }
    }
    found.idle.extend(weigh(&services, "after the load"));
    drop(services);
    let span = Duration::from_secs_f64(plan.loop_secs);
    found.sqlite = sqlite::measure(&plan.scratch, &plan.batches, span)?;
    Ok(found)
}

/// Command for an external program.
#[expect(clippy::disallowed_methods, reason = "services and generators are programs")]
fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

fn failed(what: &str, error: &anyhow::Error) -> Failed {
    eprintln!("{what}: {error:#}");
    Failed { what: what.to_owned(), error: format!("{error:#}") }
}

fn note(found: &mut Vec<Offered>, missing: &mut Vec<Failed>, what: &str, run: Result<Offered>) {
    match run {
        Ok(offered) => found.push(offered),
        Err(error) => missing.push(failed(what, &error)),
    }
}

/// Starts Ringfence repeatedly, each time with an empty data directory.
fn starts(plan: &Plan, missing: &mut Vec<Failed>) -> Vec<u64> {
    let Some(ours) = plan.services.iter().find(|service| service.is_ours) else {
        return Vec::new();
    };
    let mut taken = Vec::new();
    for number in 0..plan.starts {
        // Numbers beyond those of the running services.
        match Service::start(ours, &plan.scratch, plan.services.len() + number) {
            Ok(service) => taken.push(service.ready_after.as_micros() as u64),
            Err(error) => {
                missing.push(failed("start to ready", &error));
                break;
            }
        }
    }
    taken
}

/// Starts all services and measures the memory of Ringfence before the first request.
fn start_all(plan: &Plan, found: &mut Findings) -> Vec<Service> {
    let mut services = Vec::new();
    for (number, asked) in plan.services.iter().enumerate() {
        match Service::start(asked, &plan.scratch, number) {
            Ok(service) => services.push(service),
            Err(error) => found.failed.push(failed(&asked.name, &error)),
        }
    }
    found.idle.extend(weigh(&services, "after start"));
    found.processor_source = services.first().map_or("none", |first| first.account.source());
    services
}

fn weigh(services: &[Service], when: &str) -> Option<Idle> {
    let ours = services.iter().find(|service| service.is_ours)?;
    Some(idle::weigh(ours, when))
}

/// Rows whose service runs and answers correctly.
fn checked_rows<'a>(
    plan: &'a Plan,
    services: &'a [Service],
    missing: &mut Vec<Failed>,
) -> Vec<(&'a Row, &'a Service)> {
    let mut rows = Vec::new();
    for row in &plan.rows {
        let service = services.iter().find(|service| service.name == row.service);
        let checked = service.context("its service does not run").and_then(|service| {
            Target::of(row, service).check(row, service.is_ours)?;
            Ok(service)
        });
        match checked {
            Ok(service) => rows.push((row, service)),
            Err(error) => missing.push(failed(&row.name, &error)),
        }
    }
    rows
}

fn paced(plan: &Plan, row: &Row, service: &Service) -> Result<Offered> {
    eprintln!("{} at {} a second", row.name, row.rate);
    let span = Duration::from_secs_f64(plan.open_secs);
    let connections = PACED_CONNECTIONS;
    offered(row, service, Offer { rate: row.rate, span, connections, send_timeout: None })
}

fn flood(
    plan: &Plan,
    row: &Row,
    service: &Service,
    capacity: f64,
    connections: usize,
) -> Result<Offered> {
    let rate = 2.0 * capacity;
    eprintln!("{} offered {rate:.0} a second", row.name);
    let span = Duration::from_secs_f64(plan.open_secs);
    offered(row, service, Offer { rate, span, connections, send_timeout: Some(SEND_TIMEOUT) })
}

fn offered(row: &Row, service: &Service, offer: Offer) -> Result<Offered> {
    let before = usage::read(service);
    let found = open::offer(&Target::of(row, service), offer)?;
    let used = usage::read(service).since(&before);
    Ok(Offered { name: row.name.clone(), used, ..found })
}
