//! Requests and results on a real broker, by a Python client that knows nothing of Ringfence.

use std::net::TcpListener;
use std::time::Instant;

use anyhow::{Context, Result};
use ringfence_testkit::{Postgres, kafka, server};

use super::{Staged, absent, python};
use crate::report::Row;
use crate::shell;

/// Package versions that this suite is known to work with.
const PACKAGES: &[&str] = &["kafka-python==3.0.12", "cloudevents==2.2.0"];

const FOLDER: &str = "crates/cli/tests/kafka";

pub(super) fn run(staged: &Staged) -> Result<Row> {
    println!("kafka: requests and results, by a client of others");
    let Some(jars) = server::KAFKA.program() else {
        return Ok(absent("kafka", "Apache Kafka", "no jars: `cargo xtask services build`"));
    };
    let started = Instant::now();
    let directory = tempfile::tempdir().context("make a directory for Kafka")?;
    let listener = TcpListener::bind("127.0.0.1:0").context("find a free port")?;
    let address = listener.local_addr().context("read the port")?;
    drop(listener);
    kafka::format(&jars, directory.path(), address)?;
    let command = ["java".to_owned()].into_iter().chain(kafka::arguments(&jars, directory.path()));
    let command: Vec<String> = command.collect();
    let postgres = Postgres::start()?;
    let database = postgres.url(&postgres.database()?);
    let mut python = shell::command(python::environment("kafka", PACKAGES)?);
    python
        .env("RINGFENCE_KAFKA_POSTGRES", database)
        .env("RINGFENCE_BINARY", &staged.binary)
        .env("RINGFENCE_KAFKA_BROKER", address.to_string())
        .env("RINGFENCE_KAFKA_COMMAND", serde_json::to_string(&command)?);
    python::unittest("kafka", python, FOLDER, started)
}
