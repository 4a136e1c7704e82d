//! Vectors and tokens are those of a reference implementation; `training/golden.py` made them.

use ringfence_models::{
    Analyser, Embedder, EmbedderConfig, Encoder, Library, Tokenizer, normalise,
};
use serde::Deserialize;

use crate::support;

/// Difference of a component that rounding explains.
const TOLERANCE: f32 = 1e-4;

#[derive(Deserialize)]
struct Golden {
    text: String,
    ids: Vec<u32>,
    vector: Vec<f32>,
}

fn golden() -> Vec<Golden> {
    let text = std::fs::read_to_string(support::data("golden.jsonl")).expect("golden vectors");
    text.lines().map(|line| serde_json::from_str(line).expect("a golden vector")).collect()
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn encoder(library: &Library) -> Encoder {
    library.open("minilm").expect("the weights are there")
}

#[test]
fn tokens_are_those_of_the_reference() {
    let Some(library) = support::library("tokens_are_those_of_the_reference") else {
        return;
    };
    let model = library.model("minilm").expect("known");
    let vocabulary = std::fs::read_to_string(library.folder(&model).join("vocab.txt"));
    let tokenizer = Tokenizer::new(&vocabulary.expect("a vocabulary")).expect("special tokens");
    for Golden { text, ids, .. } in golden() {
        assert_eq!(tokenizer.encode(&text, 256), ids, "{text:?}");
    }
}

#[test]
fn vectors_are_those_of_the_reference_alone_and_in_batches() {
    let test = "vectors_are_those_of_the_reference_alone_and_in_batches";
    let Some(library) = support::library(test) else {
        return;
    };
    let (encoder, golden) = (encoder(&library), golden());
    let texts: Vec<_> = golden.iter().map(|golden| golden.text.as_str()).collect();
    let together = encoder.encode(&texts);
    let mut most: f32 = 0.0;
    for (Golden { text, vector, .. }, mut batched) in golden.iter().zip(together) {
        let mut alone = encoder.encode(&[text]).remove(0);
        normalise(&mut alone);
        normalise(&mut batched);
        most = most.max(largest_difference(&alone, vector));
        most = most.max(largest_difference(&batched, vector));
    }
    assert!(most < TOLERANCE, "largest difference {most:e}");
}

#[tokio::test]
async fn an_embedder_answers_many_callers_in_batches() {
    let Some(library) = support::library("an_embedder_answers_many_callers_in_batches") else {
        return;
    };
    let embedder = Embedder::new(library, EmbedderConfig::default());
    let golden: Vec<_> = golden().into_iter().take(12).collect();
    let asked = golden.iter().map(|golden| embedder.embed(None, &golden.text, true));
    let asked: Vec<_> = asked.collect();
    for (asked, golden) in asked.into_iter().zip(&golden) {
        let embedding = asked.await.expect("a vector");
        assert_eq!(embedding.model, "all-MiniLM-L6-v2");
        assert!(largest_difference(&embedding.vector, &golden.vector) < TOLERANCE);
    }
}

#[tokio::test]
async fn messages_get_their_intent() {
    let Some(library) = support::library("messages_get_their_intent") else {
        return;
    };
    let embedder = Embedder::new(library, EmbedderConfig::default());
    let analyser = Analyser::new(embedder).expect("the head is built in");
    let analysis = analyser.analyse("please transfer $40 from checking to savings").await;
    assert_eq!(analysis.label.as_deref(), Some("transfer"), "{analysis:?}");
    assert_eq!((&*analysis.by, &*analysis.intent), ("minilm", "action_request"));
    let strange = analyser.analyse("purple monkeys debate the epistemology of granite").await;
    assert_eq!((strange.label, strange.out_of_scope), (None, Some(true)));
}

#[tokio::test]
async fn rules_answer_without_weights_and_say_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = Library::new(folder.path().to_owned());
    let embedder = Embedder::new(library, EmbedderConfig::default());
    let analyser = Analyser::new(embedder).expect("the head is built in");
    let analysis = analyser.analyse("the server is down").await;
    assert_eq!((&*analysis.by, &*analysis.intent), ("rules", "problem_report"));
    assert_eq!(analysis.label, None);
}
