//! A registry in a temporary folder.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ringfence_registry::{Config, EmbeddedSkill, Registry, Upload};
use ringfence_testkit::TestClock;
use ringfence_types::{Digest, Json, Limits, Origin, Timestamp, Tool};
use tempfile::TempDir;

pub(crate) const SCHEMA: &str = r#"{"input": {"type": "object", "required": ["text"]},
    "output": {"type": "object", "properties": {"count": {"type": "integer"}}}}"#;

/// Time of uploads.
pub(crate) fn at() -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000)
}

/// Directories of one test.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) root: TempDir,
    pub(crate) builtins: Vec<Tool>,
    pub(crate) embedded: Vec<EmbeddedSkill>,
}

impl Place {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().expect("temp dir");
        fs::create_dir(root.path().join("skills")).expect("fresh folder");
        Self { root, builtins: Vec::new(), embedded: Vec::new() }
    }

    pub(crate) fn skills(&self) -> PathBuf {
        self.root.path().join("skills")
    }

    pub(crate) fn uploads(&self) -> PathBuf {
        self.root.path().join("state/uploads")
    }

    pub(crate) fn open(&self) -> Registry {
        Registry::open(Config {
            builtins: self.builtins.clone(),
            folders: vec![self.skills(), self.root.path().join("later")],
            embedded: self.embedded.clone(),
            uploads: self.uploads(),
            clock: Arc::new(TestClock::fixed(1_700_000_000_000_000)),
        })
        .expect("a registry")
    }

    pub(crate) fn write(&self, folder: &str, name: &str, version: &str) -> PathBuf {
        write_skill(&self.skills().join(folder), name, version);
        self.skills().join(folder)
    }
}

pub(crate) fn yaml(name: &str, version: &str) -> String {
    format!("name: {name}\nversion: {version}\ndescription: Counts.\nhandler: handler.run\n")
}

pub(crate) fn write_skill(folder: &Path, name: &str, version: &str) {
    fs::create_dir_all(folder).expect("folder");
    for (path, content) in files(name, version) {
        fs::write(folder.join(path), content).expect("file");
    }
}

pub(crate) fn files(name: &str, version: &str) -> Vec<(String, Vec<u8>)> {
    vec![
        ("skill.yaml".to_owned(), yaml(name, version).into_bytes()),
        ("schema.json".to_owned(), SCHEMA.as_bytes().to_vec()),
        ("handler.py".to_owned(), b"def run(text):\n    return {'count': 1}\n".to_vec()),
    ]
}

pub(crate) fn upload(name: &str, version: &str) -> Upload {
    Upload::Files(files(name, version))
}

pub(crate) fn builtin(name: &str) -> Tool {
    let schema = Json::parse(br#"{"type": "object"}"#).expect("JSON");
    Tool {
        name: name.parse().expect("a tool name"),
        version: "1.0.0".to_owned(),
        description: "Part of the server.".to_owned(),
        origin: Origin::Builtin,
        digest: Digest::of(name.as_bytes()),
        input_schema: schema.clone(),
        output_schema: schema,
        safety_flags: Vec::new(),
        requires_approval: false,
        network: Vec::new(),
        env: BTreeMap::new(),
        secrets: BTreeMap::new(),
        outputs: Vec::new(),
        tools: Vec::new(),
        requirements: Vec::new(),
        image: None,
        tags: Vec::new(),
        limits: Limits::default(),
        created_at: Timestamp::from_micros(0),
    }
}

/// `name version` of every tool, in the order of the catalogue.
pub(crate) fn listed(registry: &Registry) -> Vec<String> {
    let catalogue = registry.catalogue();
    catalogue.entries().iter().map(|e| format!("{} {}", e.tool.name, e.tool.version)).collect()
}

/// `folder: problem` of every broken skill, without the temporary directory.
pub(crate) fn broken(place: &Place, registry: &Registry) -> Vec<String> {
    let root = place.root.path().to_string_lossy().into_owned();
    let lines = registry.catalogue();
    let lines = lines.broken().iter();
    lines.map(|b| format!("{}: {}", b.name, b.problems.join("; ")).replace(&root, "ROOT")).collect()
}

/// Waits until the catalogue fulfils a condition.
pub(crate) async fn until(registry: &Registry, what: &str, holds: impl Fn(&Registry) -> bool) {
    let mut changes = registry.changes();
    let wait = async {
        while !holds(registry) {
            changes.changed().await.expect("the registry lives");
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), wait).await;
    assert!(waited.is_ok(), "{what}: {:?} {:?}", listed(registry), registry.catalogue().broken());
}
