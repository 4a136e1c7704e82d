//! Accuracy and latency of pre-processing: `cargo xtask bench models` runs it.
//!
//! Arguments: the folder of weights, and the file of CLINC150 if accuracy is wanted. Prints Markdown.
#![expect(clippy::print_stdout, reason = "the output is the result")]

use std::{collections::BTreeMap, path::PathBuf, time::Instant};

use ringfence_models::{Encoder, IntentHead, Library, normalise, rules};

type Rows = BTreeMap<String, Vec<(String, String)>>;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let weights = PathBuf::from(arguments.next().expect("the folder of weights"));
    let encoder = Library::new(weights).open("minilm").expect("the weights are there");
    let head = IntentHead::built_in().expect("the head is built in");
    latency(&encoder, &head);
    if let Some(file) = arguments.next() {
        let text = std::fs::read_to_string(file).expect("the data set");
        accuracy(&encoder, &head, &serde_json::from_str(&text).expect("CLINC150"));
    }
}

fn unit(encoder: &Encoder, texts: &[&str]) -> Vec<Vec<f32>> {
    let mut vectors = encoder.encode(texts);
    vectors.iter_mut().for_each(|vector| normalise(vector));
    vectors
}

fn latency(encoder: &Encoder, head: &IntentHead) {
    const RUNS: usize = 200;
    let text = "please transfer forty dollars from my checking to my savings account tomorrow";
    let mut times: Vec<_> = (0..RUNS)
        .map(|_| {
            let started = Instant::now();
            let _ = rules(text);
            let _ = head.classify(&unit(encoder, &[text])[0]);
            started.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    let at = |share: usize| times[(RUNS * share / 100).min(RUNS - 1)];
    println!("| analysis of one message | p50 ms | p95 ms | p99 ms |\n|---|---|---|---|");
    println!("| intent, slots, safety tags | {:.1} | {:.1} | {:.1} |", at(50), at(95), at(99));
    let batch = [text; 32];
    let started = Instant::now();
    let rounds = 10;
    for _ in 0..rounds {
        let _ = unit(encoder, &batch);
    }
    let batched = (rounds * batch.len()) as f64 / started.elapsed().as_secs_f64();
    println!("\n| vectors per second, one thread | |\n|---|---|");
    println!("| one at a time | {:.0} |\n| batches of 32 | {batched:.0} |", 1e3 / at(50));
}

fn accuracy(encoder: &Encoder, head: &IntentHead, rows: &Rows) {
    let classify = |part: &str| {
        let texts: Vec<_> = rows[part].iter().map(|(text, _)| text.as_str()).collect();
        let vectors = texts.chunks(64).flat_map(|texts| unit(encoder, texts));
        vectors
            .map(|vector| head.classify(&vector).expect("a vector of this encoder"))
            .collect::<Vec<_>>()
    };
    let found = classify("test");
    let wanted = &rows["test"];
    let share = |count: usize, of: usize| 100.0 * count as f64 / of as f64;
    let right = found.iter().zip(wanted).filter(|(intent, (_, label))| intent.label == *label);
    let kept = right.clone().filter(|(intent, _)| !intent.is_out_of_scope).count();
    let outside = classify("oos_test");
    let rejected = outside.iter().filter(|intent| intent.is_out_of_scope).count();
    println!("\n| CLINC150, {} test queries, 150 intents | % |\n|---|---|", wanted.len());
    println!("| right intent | {:.2} |", share(right.count(), wanted.len()));
    println!("| right intent and taken as in scope | {:.2} |", share(kept, wanted.len()));
    println!(
        "| out-of-scope queries rejected ({}) | {:.2} |",
        outside.len(),
        share(rejected, outside.len())
    );
    let mut confused: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (intent, (_, label)) in found.iter().zip(wanted).filter(|(i, (_, label))| i.label != *label)
    {
        *confused.entry((label, &intent.label)).or_default() += 1;
    }
    let mut confused: Vec<_> = confused.into_iter().collect();
    confused.sort_unstable_by_key(|(_, count)| std::cmp::Reverse(*count));
    println!("\n| intent | taken for | times of 30 |\n|---|---|---|");
    for ((label, taken), count) in confused.iter().take(10) {
        println!("| {label} | {taken} | {count} |");
    }
    let tagged =
        |part: &str| rows[part].iter().filter(|(t, _)| !rules(t).safety.is_empty()).count();
    let (tags, all) = (tagged("test") + tagged("oos_test"), wanted.len() + outside.len());
    println!("\nsafety tags on {all} harmless queries: {tags}");
}
