//! Manifests with hostile content.

use proptest::prelude::*;

use super::*;

const ZEROS: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

fn index(entries: &[(&str, &str, char)]) -> Vec<Descriptor> {
    let manifests: Vec<String> = entries
        .iter()
        .map(|(os, arch, fill)| {
            let digest = fill.to_string().repeat(64);
            format!(
                r#"{{"digest":"sha256:{digest}","size":1,
                    "platform":{{"os":"{os}","architecture":"{arch}"}}}}"#
            )
        })
        .collect();
    let json = format!(r#"{{"manifests":[{}]}}"#, manifests.join(","));
    match document(json.as_bytes()).expect("an index") {
        Document::Index(manifests) => manifests,
        other => panic!("not an index: {other:?}"),
    }
}

#[test]
fn an_index_gives_the_manifest_of_this_host_and_no_attestation() {
    let here = host_architecture();
    let chosen = choose(index(&[
        ("windows", here, 'a'),
        ("linux", here, 'b'),
        ("linux", "elsewhere", 'c'),
        ("unknown", "unknown", 'd'),
    ]));
    assert_eq!(chosen.expect("one fits").digest, format!("sha256:{}", "b".repeat(64)));
}

#[test]
fn an_index_without_this_host_is_refused() {
    let refused = choose(index(&[("linux", "elsewhere", 'c')])).expect_err("none fits");
    assert_eq!(refused.code(), "image_platform");
}

#[test]
fn two_different_images_for_this_host_are_ambiguous_and_two_tags_of_one_are_not() {
    let here = host_architecture();
    let two = choose(index(&[("linux", here, 'a'), ("linux", here, 'b')]));
    assert_eq!(two.expect_err("ambiguous").code(), "image_ambiguous");
    assert!(choose(index(&[("linux", here, 'a'), ("linux", here, 'a')])).is_ok());
}

#[test]
fn a_digest_is_64_lower_case_hexadecimal_digits_and_never_a_path() {
    assert!(Digest::parse(ZEROS).is_ok());
    let upper = ZEROS.replace("00000000", "ABCDEF00");
    for bad in ["sha256:../../x", "sha512:00", "sha256:", "", upper.as_str(), "sha256:0"] {
        assert!(Digest::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_docker_manifest_with_a_path_out_of_the_archive_is_refused() {
    for path in ["../../x", "/etc/passwd", "a/../../x", "", "a//b", "./a"] {
        let json = format!(r#"[{{"Config":"c.json","Layers":["{path}"]}}]"#);
        let refused = docker(json.as_bytes()).expect_err(path);
        assert_eq!(refused.code(), "image_malformed", "{path}");
    }
    assert!(docker(br#"[{"Config":"c.json","Layers":["a/layer.tar"]}]"#).is_ok());
}

#[test]
fn a_document_that_is_index_and_manifest_at_once_is_refused() {
    let json =
        format!(r#"{{"manifests":[],"config":{{"digest":"{ZEROS}","size":1}},"layers":[]}}"#);
    assert_eq!(document(json.as_bytes()).expect_err("both").code(), "image_malformed");
}

#[test]
fn more_layers_than_any_builder_makes_are_refused() {
    let layer = format!(r#"{{"digest":"{ZEROS}","size":1}}"#);
    let layers = vec![layer.as_str(); MAX_LAYERS + 1].join(",");
    let json = format!(r#"{{"config":{layer},"layers":[{layers}]}}"#);
    assert_eq!(document(json.as_bytes()).expect_err("too many").code(), "image_over_limit");
}

fn valid_json() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(format!(r#"{{"manifests":[{{"digest":"{ZEROS}","size":1}}]}}"#)),
        Just(format!(r#"{{"config":{{"digest":"{ZEROS}","size":1}},"layers":[]}}"#)),
        Just(format!(r#"{{"config":{{"Env":["A=b"]}},"rootfs":{{"diff_ids":["{ZEROS}"]}}}}"#)),
        Just(r#"[{"Config":"c.json","Layers":["l"]}]"#.to_string()),
    ]
}

proptest! {
    #[test]
    fn no_manifest_makes_the_parser_panic(
        json in valid_json(),
        at in any::<prop::sample::Index>(),
        with in any::<Vec<u8>>(),
        random in any::<Vec<u8>>(),
    ) {
        let mut bytes = json.into_bytes();
        let at = at.index(bytes.len());
        let end = bytes.len().min(at + with.len() / 2);
        bytes.splice(at..end, with);
        for bytes in [bytes, random] {
            let _ = config(&bytes);
            if let Ok(image) = docker(&bytes) {
                prop_assert!(image.layers.iter().all(|layer| !layer.as_bytes().starts_with(b"/")));
            }
            if let Ok(Document::Index(manifests)) = document(&bytes) {
                let _ = choose(manifests);
            }
        }
    }
}
