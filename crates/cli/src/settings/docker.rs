//! Container engine of a server.

use std::path::{Path, PathBuf};

use ringfence_sandbox::DockerConfig;
use ringfence_types::Digest;

use super::read::Reader;

impl Reader<'_> {
    /// Nothing without a socket.
    pub(super) fn docker(&mut self, data: &Path) -> Option<Option<DockerConfig>> {
        let socket = self.optional("docker.host", socket);
        let runtime = self.optional("docker.runtime", |name| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            let fits = (1..=100).contains(&name.len()) && name.chars().all(is_plain);
            fits.then(|| name.to_owned()).ok_or_else(|| format!("`{name}` is not a runtime"))
        });
        let prepared = self.count("docker.prepared", 0, 1_000);
        let (Some(socket), runtime, prepared) = (socket?, runtime?, prepared?) else {
            return Some(None);
        };
        // The same after a restart, and another for every server that may share the engine.
        let place = format!("{}\n{}", host_name(), data.display());
        let owner = Digest::of(place.as_bytes()).hex()[..16].to_owned();
        Some(Some(DockerConfig { runtime, prepared, ..DockerConfig::new(socket, owner) }))
    }
}

/// A socket of this host: the API of an engine is the whole host, so it is not used over a network.
fn socket(text: &str) -> Result<PathBuf, String> {
    match text.strip_prefix("unix://").map(Path::new) {
        Some(path) if path.is_absolute() => Ok(path.to_owned()),
        _ => Err(format!("`{text}` is not unix:///PATH")),
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_of_this_host_is_an_engine() {
        assert_eq!(socket("unix:///run/docker.sock"), Ok("/run/docker.sock".into()));
        for other in ["tcp://1.2.3.4:2375", "/run/docker.sock", "unix://docker.sock", "ssh://a"] {
            assert!(socket(other).is_err(), "{other}");
        }
    }
}
