//! Uploaded skills.

use std::fs;

use ringfence_registry::{Refused, RegisterError, RemoveError, Upload};
use ringfence_types::Origin;

use crate::support::{Place, at, broken, builtin, files, listed, upload};

#[tokio::test]
async fn a_registered_skill_is_there_at_once_and_after_a_restart() {
    let place = Place::new();
    let registry = place.open();
    let entry = registry.register(upload("sent", "1.0.0"), at()).await.unwrap();
    assert_eq!(entry.tool.origin, Origin::Upload);
    assert_eq!(listed(&registry), ["sent 1.0.0"]);
    let again = place.open();
    assert_eq!(again.catalogue().get("sent", None).unwrap().tool, entry.tool);
    assert!(place.uploads().join(entry.tool.digest.hex()).join("skill/handler.py").exists());
}

#[tokio::test]
async fn the_same_files_again_are_the_same_skill() {
    let place = Place::new();
    let registry = place.open();
    let first = registry.register(upload("sent", "1.0.0"), at()).await.unwrap();
    let changes = registry.changes();
    let second = registry.register(upload("sent", "1.0.0"), at()).await.unwrap();
    assert_eq!(first.tool, second.tool);
    assert!(!changes.has_changed().unwrap());
    registry.register(upload("sent", "1.1.0"), at()).await.unwrap();
    assert_eq!(listed(&registry), ["sent 1.0.0", "sent 1.1.0"]);
}

#[tokio::test]
async fn an_upload_replaces_no_other_tool() {
    let mut place = Place::new();
    place.builtins = vec![builtin("code_run")];
    place.write("mine", "mine", "1.0.0");
    let registry = place.open();
    registry.register(upload("sent", "1.0.0"), at()).await.unwrap();
    let before = listed(&registry);
    let mut other = files("sent", "1.0.0");
    other[2].1.extend(b"# other");
    for (upload, holder) in [
        (upload("code_run", "9.0.0"), "a tool of the server itself"),
        (upload("mine", "9.0.0"), "the folder"),
        (Upload::Files(other), "a registered skill"),
    ] {
        match registry.register(upload, at()).await {
            Err(RegisterError::Taken { holder: found, .. }) => {
                assert!(found.starts_with(holder), "{found}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(listed(&registry), before);
    assert_eq!(fs::read_dir(place.uploads()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_folder_that_comes_later_wins_the_name() {
    let place = Place::new();
    let registry = place.open();
    registry.register(upload("sent", "2.0.0"), at()).await.unwrap();
    place.write("sent", "sent", "1.0.0");
    registry.rescan();
    assert_eq!(listed(&registry), ["sent 1.0.0"]);
    let broken = broken(&place, &registry);
    assert!(broken[0].contains("the name `sent` is already taken by the folder"), "{broken:?}");
}

#[tokio::test]
async fn a_broken_or_hostile_upload_leaves_nothing_behind() {
    let place = Place::new();
    let registry = place.open();
    let mut half = files("sent", "1");
    half.truncate(1);
    match registry.register(Upload::Files(half), at()).await {
        Err(RegisterError::Broken { problems }) => assert_eq!(problems.len(), 3, "{problems:?}"),
        other => panic!("{other:?}"),
    }
    let mut hostile = files("sent", "1.0.0");
    hostile.push(("../../escaped".to_owned(), b"x".to_vec()));
    let refused = registry.register(Upload::Files(hostile), at()).await;
    assert!(matches!(refused, Err(RegisterError::Refused(Refused::Entry { .. }))), "{refused:?}");
    let nonsense = registry.register(Upload::Archive(b"nonsense".to_vec()), at()).await;
    assert!(matches!(nonsense, Err(RegisterError::Refused(Refused::Format))), "{nonsense:?}");
    assert_eq!(fs::read_dir(place.uploads()).unwrap().count(), 0);
    assert!(listed(&registry).is_empty());
}

#[tokio::test]
async fn a_stored_skill_that_was_changed_is_broken_until_it_is_sent_again() {
    let place = Place::new();
    let registry = place.open();
    let entry = registry.register(upload("sent", "1.0.0"), at()).await.unwrap();
    let handler = place.uploads().join(entry.tool.digest.hex()).join("skill/handler.py");
    fs::write(&handler, "def run(text): steal()").unwrap();
    registry.rescan();
    assert!(listed(&registry).is_empty());
    assert!(broken(&place, &registry)[0].contains("changed after it was registered"));
    registry.register(upload("sent", "1.0.0"), at()).await.unwrap();
    assert_eq!(listed(&registry), ["sent 1.0.0"]);
    assert!(broken(&place, &registry).is_empty());
}

#[tokio::test]
async fn what_a_crash_left_is_removed_at_the_next_start() {
    let place = Place::new();
    place.open();
    let left = place.uploads().join(".unfinished-abc");
    fs::create_dir_all(left.join("skill")).unwrap();
    fs::write(place.uploads().join("note.txt"), "not ours").unwrap();
    let registry = place.open();
    assert!(!left.exists());
    assert!(listed(&registry).is_empty() && broken(&place, &registry).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_uploads_at_once_are_all_kept() {
    let place = Place::new();
    let registry = place.open();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..12 {
        let registry = registry.clone();
        // Each twice, so that the same skill races with itself.
        let name = format!("sent_{}", n / 2);
        tasks.spawn(async move { registry.register(upload(&name, "1.0.0"), at()).await.map(drop) });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap().unwrap();
    }
    assert_eq!(listed(&registry).len(), 6);
}

#[tokio::test]
async fn a_registered_skill_is_removed_for_good_by_version_or_as_a_whole() {
    let place = Place::new();
    let registry = place.open();
    for version in ["1.0.0", "1.1.0", "2.0.0"] {
        registry.register(upload("sent", version), at()).await.unwrap();
    }
    registry.register(upload("kept", "1.0.0"), at()).await.unwrap();
    let first = registry.catalogue().get("sent", Some("1.1.0")).unwrap().tool.reference();
    assert_eq!(registry.remove("sent", Some("1.1.0")).await.unwrap(), [first]);
    assert_eq!(listed(&registry), ["kept 1.0.0", "sent 1.0.0", "sent 2.0.0"]);
    assert!(matches!(registry.remove("sent", Some("1.1.0")).await, Err(RemoveError::Unknown)));
    assert_eq!(registry.remove("sent", None).await.unwrap().len(), 2);
    assert_eq!(listed(&registry), ["kept 1.0.0"]);
    assert_eq!(listed(&place.open()), ["kept 1.0.0"]);
    assert_eq!(fs::read_dir(place.uploads()).unwrap().count(), 1);
    registry.register(upload("sent", "1.1.0"), at()).await.unwrap();
    assert_eq!(listed(&registry), ["kept 1.0.0", "sent 1.1.0"]);
}

#[tokio::test]
async fn only_what_was_registered_is_removed() {
    let mut place = Place::new();
    place.builtins = vec![builtin("code_run")];
    place.write("mine", "mine", "1.0.0");
    let registry = place.open();
    for (name, expected) in [("code_run", "a tool of the server itself"), ("mine", "the folder")] {
        match registry.remove(name, None).await {
            Err(RemoveError::NotUploaded { holder }) => assert!(holder.starts_with(expected)),
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(registry.remove("../mine", None).await, Err(RemoveError::Unknown)));
    assert_eq!(listed(&registry), ["code_run 1.0.0", "mine 1.0.0"]);
}

#[tokio::test]
async fn an_upload_that_a_folder_hides_can_be_removed() {
    let place = Place::new();
    let registry = place.open();
    registry.register(upload("sent", "2.0.0"), at()).await.unwrap();
    place.write("sent", "sent", "1.0.0");
    registry.rescan();
    assert!(!broken(&place, &registry).is_empty());
    assert_eq!(registry.remove("sent", None).await.unwrap().len(), 1);
    assert!(broken(&place, &registry).is_empty());
    assert_eq!(listed(&registry), ["sent 1.0.0"]);
}
