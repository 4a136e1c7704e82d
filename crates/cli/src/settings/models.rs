//! Settings of models.

use std::path::{Path, PathBuf};

use ringfence_llm::Profiles;
use ringfence_models::{EmbedderConfig, find};

use super::{file::content, layers::Layers, read::Reader};

/// Models that run in the server.
#[derive(Debug, Clone)]
pub(crate) struct Models {
    /// Folder of weights.
    pub(crate) folder: PathBuf,
    /// Profiles of model servers, if there is a file of them.
    pub(crate) profiles: Option<Profiles>,
    /// Threads, queue and the default model.
    pub(crate) embedder: EmbedderConfig,
}

impl Reader<'_> {
    pub(super) fn models(&mut self, data: &Path) -> Option<Models> {
        let folder = folder(self.layers, data);
        let model = self.one("models.embedding", |text| {
            find(text).map(|model| model.name.to_owned()).map_err(|error| error.to_string())
        });
        let threads = self.count("models.threads", 1, 64);
        let queue = self.count("models.queue", 1, 1_000_000);
        let profiles = self.profiles();
        let embedder = EmbedderConfig {
            model: model?,
            threads: threads?,
            queue: queue?,
            ..EmbedderConfig::default()
        };
        Some(Models { folder, profiles: profiles?, embedder })
    }

    fn profiles(&mut self) -> Option<Option<Profiles>> {
        if self.layers.get("models.profiles").values.is_empty() {
            return Some(None);
        }
        let mode = self.one("models.mode", |text| Ok(text.to_owned()))?;
        self.one("models.profiles", |path| {
            let text = content(Path::new(path)).map_err(|error| format!("`{path}`: {error}"))?;
            Profiles::parse(&text, &mode).map(Some).map_err(|error| format!("`{path}`: {error}"))
        })
    }
}

/// The named folder, else the one in the data directory.
pub(super) fn folder(layers: &Layers, data: &Path) -> PathBuf {
    let named = layers.get("models.folder").values.first().map(PathBuf::from);
    named.unwrap_or_else(|| data.join("models"))
}
