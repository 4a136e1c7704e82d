//! Speed of a policy replay: fills a store with decisions by real records, then replays them
//! against changed rules and prints the rate.
//!
//! `cargo run --release -p ringfence-engine --example replay [decisions]`
#![expect(clippy::print_stdout, reason = "printing is what this program does")]
#![expect(clippy::unwrap_used, reason = "a measurement that cannot be made should stop")]

use std::{sync::Arc, time::Duration, time::Instant};

use ringfence_engine::ReplayRequest;
use ringfence_policy::{Bundle, Input, Rego, contract::document, decide_documented};
use ringfence_store::{
    DecisionQuery, NewDecision, Record, Store,
    contract::samples::{accepted, finished, in_state, record, tool},
};
use ringfence_testkit::{Plane, PlaneConfig, TestClock};
use ringfence_types::{Json, Timestamp};

/// Records that are on their way at one time.
const AT_ONCE: usize = 500;

/// Time of the first decision.
const BEGIN: i64 = 1_767_225_600_000_000;

fn main() {
    let count = std::env::args().nth(1).map_or(100_000, |count| count.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(measure(count));
}

async fn measure(count: usize) {
    let clock = Arc::new(TestClock::fixed(BEGIN));
    let engine = Plane::start(PlaneConfig { clock, ..PlaneConfig::default() }).await.unwrap();
    let started = Instant::now();
    fill(&engine.store, count).await;
    let took = started.elapsed().as_secs_f64();
    println!("{count} decisions recorded with their calls in {took:.1} s");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    for (what, rules) in [("rules over flags", FLAGS), ("rules over arguments", ARGUMENTS)] {
        let bundle = Bundle::from_files([("rules.rego", rules)]).unwrap();
        let request = ReplayRequest {
            bundle,
            history: DecisionQuery::default(),
            listed: 100,
            max_decisions: usize::MAX,
            time_limit: Duration::from_secs(3_600),
            threads,
        };
        let replay = engine.replay(request).await.unwrap();
        assert_eq!(replay.decisions, count as u64);
        let seconds = replay.took.as_secs_f64();
        let rate = replay.decisions as f64 / seconds;
        println!(
            "{what:<22}{} judged again in {seconds:.2} s, {rate:.0} per second on {threads} threads; \
             {} would flip: {:?}",
            replay.decisions, replay.flips.total, replay.flips.kinds
        );
    }
    engine.stop(Duration::from_secs(5)).await;
}

/// Changed rules: one more flag is denied. Answers are shared by equal flags.
const FLAGS: &str = r#"package ringfence

default decision := {"decision": "allow"}

decision := {"decision": "deny", "reasons": [{"rule": "personal", "message": "no personal data"}]} if {
	"pii_risk" in input.tool.safety_flags
}
"#;

/// Changed rules: mail to the outside is held. Every document has its own arguments.
const ARGUMENTS: &str = r#"package ringfence

default decision := {"decision": "allow"}

decision := {"decision": "hold", "reasons": [{"rule": "outside", "message": "a person must see it"}]} if {
	not endswith(input.args.to, "@ours.example")
}
"#;

async fn fill(store: &Arc<dyn Store>, count: usize) {
    let rego = Arc::new(Rego::load(&Bundle::built_in()).unwrap());
    let mut writing = tokio::task::JoinSet::new();
    for index in 0..count {
        let (store, rego) = (Arc::clone(store), Arc::clone(&rego));
        writing.spawn(async move { store.record(step(&rego, index).await).await });
        if writing.len() >= AT_ONCE {
            writing.join_next().await.unwrap().unwrap().unwrap();
        }
    }
    while let Some(written) = writing.join_next().await {
        written.unwrap().unwrap();
    }
}

/// The last step of a call, with the decision about it.
async fn step(rego: &Rego, index: usize) -> Record {
    let input = input(index);
    let (decided, document) = decide_documented(rego, &input).await;
    let decision = decided.decision().clone();
    let mut call = accepted(&input.tenant);
    call.asked.args = input.args.clone();
    call.asked.tool = tool(input.tool.name.as_str());
    let mut call = in_state(&call, finished());
    call.decision = Some(decision.clone());
    let kept = NewDecision { at: input.time, decision, input: document };
    Record { decisions: vec![kept], ..record(&call, None) }
}

fn input(index: usize) -> Input {
    let flags: &[&[&str]] = &[&["none"], &["pii_risk"], &["none", "file_system"], &["side_effect"]];
    let host = if index.is_multiple_of(3) { "other.example" } else { "ours.example" };
    let args = format!(r#"{{"to":"user{index}@{host}","body":"Number {index} of many."}}"#);
    let mut input = document(flags[index % flags.len()], "{}");
    input.args = Json::parse(args.as_bytes()).unwrap();
    input.tenant = format!("tenant-{}", index % 7).parse().unwrap();
    input.tool.name = format!("tool_{}", index % 20).parse().unwrap();
    input.time = Timestamp::from_micros(BEGIN + index as i64 * 1_000);
    input
}
