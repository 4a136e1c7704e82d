//! Detection of changes while the server runs.

use std::fs;

use ringfence_registry::Registry;
use tokio::{sync::oneshot, task::JoinHandle};

use crate::support::{Place, listed, until, write_skill, yaml};

struct Watching {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

fn watch(registry: &Registry) -> Watching {
    let (stop, stopped) = oneshot::channel();
    let registry = registry.clone();
    let task = tokio::spawn(async move {
        registry.watch(async { stopped.await.unwrap_or(()) }).await;
    });
    Watching { stop, task }
}

impl Watching {
    /// Stops the watch and waits for its end.
    async fn end(self) {
        self.stop.send(()).expect("still watching");
        self.task.await.expect("a quiet end");
    }
}

#[tokio::test]
async fn added_changed_and_removed_folders_are_picked_up() {
    let place = Place::new();
    let registry = place.open();
    let watching = watch(&registry);

    let folder = place.write("one", "one", "1.0.0");
    until(&registry, "added", |r| listed(r) == ["one 1.0.0"]).await;
    let first = registry.catalogue().entries()[0].tool.digest;

    fs::write(folder.join("handler.py"), "def run(text): return {}").unwrap();
    until(&registry, "changed in place", |r| r.catalogue().by_digest(first).is_none()).await;
    assert_eq!(listed(&registry), ["one 1.0.0"]);

    // As editors save: a new file moved over the old one.
    fs::write(folder.join("new"), yaml("one", "1.0.1")).unwrap();
    fs::rename(folder.join("new"), folder.join("skill.yaml")).unwrap();
    until(&registry, "changed by rename", |r| listed(r) == ["one 1.0.1"]).await;

    fs::create_dir_all(folder.join("data/deep")).unwrap();
    let known = registry.catalogue().entries()[0].tool.digest;
    fs::write(folder.join("data/deep/words.txt"), "a").unwrap();
    until(&registry, "a file in a new folder", |r| r.catalogue().by_digest(known).is_none()).await;
    let known = registry.catalogue().entries()[0].tool.digest;
    fs::write(folder.join("data/deep/words.txt"), "b").unwrap();
    until(&registry, "changed deep inside", |r| r.catalogue().by_digest(known).is_none()).await;

    fs::remove_file(folder.join("schema.json")).unwrap();
    until(&registry, "broken", |r| r.catalogue().broken().len() == 1).await;

    fs::remove_dir_all(&folder).unwrap();
    until(&registry, "removed", |r| {
        r.catalogue().entries().is_empty() && r.catalogue().broken().is_empty()
    })
    .await;
    watching.end().await;
}

#[tokio::test]
async fn a_place_that_appears_later_is_watched() {
    let place = Place::new();
    let registry = place.open();
    let watching = watch(&registry);
    place.write("first", "first", "1.0.0");
    until(&registry, "the control", |r| listed(r) == ["first 1.0.0"]).await;
    let later = place.root.path().join("later");
    fs::create_dir(&later).unwrap();
    write_skill(&later.join("two"), "two", "1.0.0");
    until(&registry, "in the new place", |r| listed(r) == ["first 1.0.0", "two 1.0.0"]).await;
    fs::remove_dir_all(&later).unwrap();
    until(&registry, "the place is gone", |r| listed(r) == ["first 1.0.0"]).await;
    watching.end().await;
}

#[tokio::test]
async fn an_upload_removed_by_hand_is_gone() {
    let place = Place::new();
    let registry = place.open();
    let watching = watch(&registry);
    let entry = registry
        .register(crate::support::upload("sent", "1.0.0"), crate::support::at())
        .await
        .unwrap();
    assert_eq!(listed(&registry), ["sent 1.0.0"]);
    fs::remove_dir_all(place.uploads().join(entry.tool.digest.hex())).unwrap();
    until(&registry, "removed", |r| listed(r).is_empty()).await;
    watching.end().await;
}
