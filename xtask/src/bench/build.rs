//! Release build of the measured and the measuring binary.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{settings, shell};

/// The two binaries.
#[derive(Debug)]
pub(super) struct Built {
    /// The product.
    pub(super) ringfence: PathBuf,
    /// The measuring binary.
    pub(super) bench: PathBuf,
}

/// Builds both in the release profile and asks cargo for their paths.
pub(super) fn release() -> Result<Built> {
    let mut cargo = shell::command(settings::cargo());
    cargo
        .args(["build", "--release", "--package", "ringfence", "--package", "ringfence-bench"])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(settings::workspace_root())
        .stdout(Stdio::piped());
    let messages = shell::read(&mut cargo)?;
    let find = |name: &str| {
        executable(&messages, name).with_context(|| format!("cargo built no binary `{name}`"))
    };
    Ok(Built { ringfence: find("ringfence")?, bench: find("ringfence-bench")? })
}

fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find_map(|said| {
        let is_it = said["target"]["name"] == name && said["reason"] == "compiler-artifact";
        said["executable"].as_str().filter(|_| is_it).map(PathBuf::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_is_found_among_cargos_messages() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"x"},"executable":null}
not json
{"reason":"compiler-artifact","target":{"name":"x"},"executable":"/t/x"}"#;
        assert_eq!(executable(messages, "x"), Some("/t/x".into()));
        assert_eq!(executable(messages, "y"), None);
    }
}
