//! The broker, if Kafka is the bus: whether it answers, and which topics it has.

use ringfence_bus::kafka::{Preflight, TopicState, has_tls, preflight};
use ringfence_jail::host::{Finding, Status};

use crate::{
    cli::{DoctorArgs, SettingsArgs},
    failure::Failure,
    run::runtime,
    settings::{Kafka, Settings},
};

/// Findings about the broker that the settings name; none with the embedded queue.
pub(super) fn findings(args: &DoctorArgs) -> Result<Vec<Finding>, Failure> {
    let flags = SettingsArgs { bus: args.bus.clone(), ..SettingsArgs::default() };
    let settings = match Settings::load(&flags) {
        Ok(settings) => settings,
        // A question about the host alone does not depend on settings that are right.
        Err(_) if args.bus.is_none() && !args.create_topics => return Ok(Vec::new()),
        Err(failure) => return Err(failure),
    };
    let Some(kafka) = &settings.kafka else {
        return match args.create_topics {
            true => Err(Failure::new("--create-topics needs --bus kafka://HOST:PORT")),
            false => Ok(Vec::new()),
        };
    };
    let options = kafka.options("doctor");
    let looked = runtime()?.block_on(preflight(&options, &Kafka::topics(), args.create_topics));
    Ok(match looked {
        Ok(found) => answers(&options.brokers, &found),
        Err(error) => {
            let detail = format!("{} does not answer: {error}", options.brokers);
            let fix = "start the broker, or check the address and kafka.* in ringfence config show";
            vec![tls(), finding("kafka-broker", Status::Missing, detail, Some(fix))]
        }
    })
}

fn answers(brokers: &str, found: &Preflight) -> Vec<Finding> {
    let mut findings = vec![tls(), finding("kafka-broker", Status::Ok, brokers.to_owned(), None)];
    let describe = |topic: &TopicState| match topic {
        TopicState { name, partitions: Some(count), is_created: true } => {
            format!("{name} was created with {count} partitions")
        }
        TopicState { name, partitions: Some(count), .. } => {
            format!("{name} has {count} partitions")
        }
        TopicState { name, .. } => format!("{name} does not exist"),
    };
    let detail = found.topics.iter().map(describe).collect::<Vec<_>>().join(", ");
    let is_complete = found.topics.iter().all(|topic| topic.partitions.is_some());
    let fix = "ringfence doctor --create-topics";
    findings.push(match is_complete {
        true => finding("kafka-topics", Status::Ok, detail, None),
        false => finding("kafka-topics", Status::Degraded, detail, Some(fix)),
    });
    findings
}

fn tls() -> Finding {
    match has_tls() {
        true => finding("kafka-tls", Status::Ok, "in this build".to_owned(), None),
        false => {
            let detail = "not in this build: no SSL, SASL_SSL or SCRAM".to_owned();
            let fix = "cargo build --release --features kafka-tls";
            finding("kafka-tls", Status::Degraded, detail, Some(fix))
        }
    }
}

fn finding(name: &'static str, status: Status, detail: String, fix: Option<&str>) -> Finding {
    Finding { name, status, detail, fix: fix.map(str::to_owned) }
}
