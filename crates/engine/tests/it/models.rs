//! `embed_text`: vectors by a model that runs in the server, and what happens without its weights.

use std::sync::Arc;

use ringfence_testkit::{Plane, PlaneConfig};
use ringfence_types::{Call, ErrorCode, Produced, State};
use serde_json::{Value, json};

use crate::support::{principal, request, stand};

async fn embed(plane: &Plane, args: Value) -> Arc<Call> {
    stand(plane, &principal("acme"), request("embed_text", &args)).await
}

fn produced(call: &Arc<Call>) -> &Produced {
    match &call.state {
        State::Finished(finished) => &finished.produced,
        other => panic!("{other:?}"),
    }
}

fn result(call: &Arc<Call>) -> Value {
    match produced(call) {
        Produced::Result(result) => result.to_value(),
        Produced::Error(error) => panic!("{error:?}"),
    }
}

fn vector(result: &Value) -> Vec<f64> {
    let numbers = result["embedding"].as_array().expect("a vector");
    numbers.iter().map(|number| number.as_f64().expect("a number")).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[tokio::test]
async fn similar_texts_have_similar_vectors() {
    let test = "similar_texts_have_similar_vectors";
    let Some(models) = ringfence_testkit::minilm(test) else { return };
    let config = PlaneConfig { models: Some(models), ..PlaneConfig::default() };
    let plane = Plane::start(config).await.expect("a plane");
    let person = result(&embed(&plane, json!({"text": "That is a happy person"})).await);
    assert_eq!(person["dimension"], 384);
    assert_eq!(person["model_used"], "all-MiniLM-L6-v2");
    assert_eq!(person["text_length"], 22);
    let args = json!({"text": "That is a very happy person", "normalize": false});
    let very = result(&embed(&plane, args).await);
    assert_eq!(very["normalized"], false);
    let weather = result(&embed(&plane, json!({"text": "Today is a sunny day"})).await);
    let [person, very, weather] = [&person, &very, &weather].map(vector);
    let length = |a: &[f64]| dot(a, a).sqrt();
    assert!((length(&person) - 1.0).abs() < 1e-4);
    assert!((length(&very) - 1.0).abs() > 1e-2, "not normalised");
    let similar = dot(&person, &very) / length(&very);
    let other = dot(&person, &weather);
    assert!(similar > 0.9 && other < 0.4, "{similar} {other}");
}

#[tokio::test]
async fn a_model_that_is_not_there_is_an_error_by_name() {
    let plane = Plane::start(PlaneConfig::default()).await.expect("a plane");
    let check = async |args: Value, code: ErrorCode, name: &str| {
        let call = embed(&plane, args).await;
        match produced(&call) {
            Produced::Error(error) => {
                assert_eq!(error.code, code, "{error:?}");
                assert!(error.message.contains(name), "{error:?}");
            }
            Produced::Result(result) => panic!("{result:?}"),
        }
    };
    check(json!({"text": "x"}), ErrorCode::ModelMissing, "ringfence models fetch").await;
    let args = json!({"text": "x", "model": "all-mpnet-base-v2"});
    check(args, ErrorCode::ModelUnsupported, "all-mpnet-base-v2").await;
}
