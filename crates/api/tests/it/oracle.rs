//! Whether the time or the shape of an answer tells a foreign id from one that nothing has.
//!
//! The short run, which every change takes, checks that both take one way: the same answer but for
//! its trace. Times are looked at by the long run alone, `RINGFENCE_TIMING_SAMPLES=10000`, on a
//! machine that does nothing else: it prints both distributions and how well one sample of each
//! tells them apart.

use std::time::{Duration, Instant};

use ringfence_types::Scope;

use crate::support::{Answer, Server, send};

/// Maximum advantage of a guess by time over a coin toss: a thousand requests would not tell.
const TOLERATED: f64 = 0.02;

#[expect(clippy::disallowed_methods, reason = "tests have no other way to be told")]
fn samples() -> Option<usize> {
    std::env::var("RINGFENCE_TIMING_SAMPLES").ok().map(|text| text.parse().unwrap())
}

/// An answer without what differs between any two.
fn shape(answer: &Answer) -> (u16, Vec<(String, String)>, serde_json::Value) {
    let kept = |name: &str| !matches!(name, "traceresponse" | "date");
    let headers = answer.headers.iter().filter(|(name, _)| kept(name.as_str()));
    let text = |(name, value): (&reqwest::header::HeaderName, &reqwest::header::HeaderValue)| {
        (name.to_string(), value.to_str().unwrap().to_owned())
    };
    let mut body = answer.json();
    for member in ["trace_id", "instance"] {
        body[member] = serde_json::Value::Null;
    }
    (answer.status, headers.map(text).collect(), body)
}

async fn ask(server: &Server, key: &str, id: &str) -> (Duration, Answer) {
    let request = server.bare("GET", &format!("/v1/calls/{id}")).bearer_auth(key);
    let began = Instant::now();
    let answer = send(request).await;
    (began.elapsed(), answer)
}

/// The chance that a sample of the one is above a sample of the other, ties split.
fn chance(one: &[Duration], other: &[Duration]) -> f64 {
    let mut sorted = other.to_vec();
    sorted.sort();
    let above = |sample: &Duration| {
        let below = sorted.partition_point(|other| other < sample);
        let equal = sorted.partition_point(|other| other <= sample) - below;
        below as f64 + equal as f64 / 2.0
    };
    one.iter().map(above).sum::<f64>() / (one.len() * other.len()) as f64
}

fn median(samples: &[Duration]) -> Duration {
    let mut sorted = samples.to_vec();
    sorted.sort();
    sorted[sorted.len() / 2]
}

#[tokio::test]
async fn a_foreign_id_is_answered_as_one_that_nothing_has() {
    let server = Server::start().await;
    let foreign = server.echo("secret").await["id"].as_str().unwrap().to_owned();
    // Of the same age, so that an index finds its neighbours in the same place.
    let last = if foreign.ends_with('0') { "1" } else { "0" };
    let missing = format!("{}{last}", &foreign[..foreign.len() - 1]);
    let stranger = server.key("other", &[Scope::Read]).await;
    let (mut of_foreign, mut of_missing) = (Vec::new(), Vec::new());
    for number in 0..samples().unwrap_or(20) {
        // Taking turns at going first: what the first warms up helps the second.
        let order = if number % 2 == 0 { [true, false] } else { [false, true] };
        let mut shapes = Vec::new();
        for is_foreign in order {
            let id = if is_foreign { &foreign } else { &missing };
            let (took, answer) = ask(&server, &stranger, id).await;
            assert_eq!((answer.status, answer.problem().as_str()), (404, "not_found"));
            shapes.push(shape(&answer));
            if is_foreign { of_foreign.push(took) } else { of_missing.push(took) }
        }
        assert_eq!(shapes[0], shapes[1]);
    }
    if samples().is_some() {
        let chance = chance(&of_foreign, &of_missing);
        println!(
            "{} samples each: median foreign {:?}, missing {:?}; a sample of the first is above one \
             of the second with probability {chance:.4}",
            of_foreign.len(),
            median(&of_foreign),
            median(&of_missing),
        );
        assert!((chance - 0.5).abs() < TOLERATED, "{chance}");
    }
    // Control: the owner sees it.
    assert_eq!(server.get(&format!("/v1/calls/{foreign}")).await.status, 200);
    server.stop().await;
}

#[test]
fn the_measure_tells_distributions_apart() {
    let spread = |from: u64| (from..from + 100).map(Duration::from_micros).collect::<Vec<_>>();
    assert_eq!(chance(&spread(0), &spread(0)), 0.5);
    assert_eq!(chance(&spread(100), &spread(0)), 1.0);
    assert!((chance(&spread(10), &spread(0)) - 0.5).abs() > TOLERATED);
}
