//! The library of weights: whole or not at all, and trusted by digest.

use std::fs;

use ringfence_models::{Embedder, EmbedderConfig, Error, Files, Library, State};

use crate::support;

#[test]
fn a_model_is_installed_verified_exported_and_removed() {
    let test = "a_model_is_installed_verified_exported_and_removed";
    let Some(source) = support::library(test) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let library = Library::new(folder.path().join("models"));
    assert_eq!(library.state("minilm").expect("known"), State::Missing);
    let model = source.model("minilm").expect("known");
    let files = Files::from_path(&model, &source.folder(&model)).expect("the files");
    library.install("minilm", &files, None).expect("installed");
    assert_eq!(library.state("minilm").expect("known"), State::Ready);
    library.verify("minilm").expect("all digests agree");

    let archive = folder.path().join("minilm.tar");
    library.export("minilm", fs::File::create(&archive).expect("a file")).expect("exported");
    assert!(library.remove("minilm").expect("removed"));
    assert!(!library.remove("minilm").expect("removed before"));
    let files = Files::from_path(&model, &archive).expect("the archive");
    library.install("minilm", &files, None).expect("installed from the archive");

    let weights = library.folder(&model).join("model.safetensors");
    let mut bytes = fs::read(&weights).expect("weights");
    *bytes.last_mut().expect("not empty") ^= 1;
    fs::write(&weights, bytes).expect("written");
    let error = library.verify("minilm").expect_err("one bit differs").to_string();
    assert!(error.contains("model.safetensors") && error.contains("digest"), "{error}");
    assert!(library.open("minilm").is_err(), "damaged weights are not used");
}

#[test]
fn files_with_other_digests_are_refused_and_leave_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = Library::new(folder.path().join("models"));
    let mut files = Files::new("a test");
    files.add("model.safetensors", b"weights".to_vec());
    let error = library.install("minilm", &files, None).expect_err("no vocabulary, wrong weights");
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    assert_eq!(library.state("minilm").expect("known"), State::Missing);
    let error = library.install("paraphrase", &files, None).expect_err("no digest");
    assert!(error.to_string().contains("--sha256"), "{error}");
    let error = library.install("mpnet", &files, None).expect_err("not implemented");
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

#[tokio::test]
async fn a_missing_model_is_an_error_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = Library::new(folder.path().to_owned());
    let embedder = Embedder::new(library, EmbedderConfig::default());
    let error = embedder.embed(None, "text", true).await.expect_err("no weights").to_string();
    assert!(error.contains("all-MiniLM-L6-v2") && error.contains("models fetch"), "{error}");
    let error = embedder.embed(Some("nonsense"), "text", true).await.expect_err("unknown");
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
}
