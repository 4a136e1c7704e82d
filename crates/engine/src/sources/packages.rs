//! Packages of a server: installed once in a sandbox that reaches the registries and nothing else, and
//! kept as a snapshot of its workspace. The server runs on the snapshot, without access to the registries,
//! and finds the same bytes at every start.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use ringfence_types::{Digest, Json, Package, PackageRegistry};

use super::{
    Source,
    start::{Wanted, exec, make},
};
use crate::{engine::Inner, sandboxes::Attachment};

const PYTHON: &str = "/workspace/python";
const NODE: &str = "/workspace/node";
/// pip of the host, or that of a new environment where the host has none.
const PIP: &str = "python3 -m pip --version >/dev/null 2>&1 && exec python3 -m pip \"$@\"; \
                   python3 -m venv /tmp/pip && exec /tmp/pip/bin/python -m pip \"$@\"";
/// Authorities of the host, which may know a mirror that others do not.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Memory of an installation, and of a server with packages.
pub(super) const MEMORY: u64 = 1 << 30;
/// Largest snapshot.
const MAX_SNAPSHOT: usize = 60 << 20;

/// Hosts of a registry.
const fn hosts(registry: PackageRegistry) -> &'static [&'static str] {
    match registry {
        PackageRegistry::Pypi => &["pypi.org", "files.pythonhosted.org"],
        PackageRegistry::Npm => &["registry.npmjs.org"],
    }
}

/// Variables by which programs find installed packages.
pub(super) fn environment() -> BTreeMap<String, String> {
    let path = format!("{PYTHON}/bin:{NODE}/node_modules/.bin:/usr/local/bin:/usr/bin:/bin");
    [
        ("PATH", path),
        ("PYTHONPATH", PYTHON.to_owned()),
        ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
        ("NODE_PATH", format!("{NODE}/node_modules")),
        ("HOME", "/workspace".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// The workspace with the packages in it.
pub(super) async fn installed(
    inner: &Arc<Inner>,
    source: &Arc<Source>,
    packages: &[Package],
) -> Result<Attachment, String> {
    let file = file(inner, packages);
    if let Ok(bytes) = tokio::fs::read(&file).await {
        return Ok(Attachment::new(bytes));
    }
    let bytes = install(inner, source, packages).await?;
    if bytes.len() > MAX_SNAPSHOT {
        return Err(format!("its packages take {} bytes, more than {MAX_SNAPSHOT}", bytes.len()));
    }
    keep(&file, &bytes).await.map_err(|error| format!("its packages cannot be kept: {error}"))?;
    Ok(Attachment::new(bytes))
}

fn file(inner: &Inner, packages: &[Package]) -> PathBuf {
    let digest: Digest = Json::plain(&packages).digest();
    inner.parts.settings.mcp_packages.join(format!("{}.snapshot", digest.hex()))
}

async fn keep(file: &PathBuf, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        tokio::fs::create_dir_all(folder).await?;
    }
    // A file of this name is whole.
    let part = file.with_extension(format!("part-{}", std::process::id()));
    tokio::fs::write(&part, bytes).await?;
    tokio::fs::rename(&part, file).await
}

async fn install(
    inner: &Arc<Inner>,
    source: &Arc<Source>,
    packages: &[Package],
) -> Result<Vec<u8>, String> {
    let mut reached: Vec<String> = packages
        .iter()
        .flat_map(|package| hosts(package.registry))
        .map(|host| (*host).to_owned())
        .collect();
    reached.sort();
    reached.dedup();
    let sandbox = make(inner, source, Wanted { hosts: reached, memory: MEMORY, snapshot: None });
    let sandbox = sandbox.await?;
    for registry in [PackageRegistry::Pypi, PackageRegistry::Npm] {
        let of_it: Vec<&Package> =
            packages.iter().filter(|package| package.registry == registry).collect();
        if of_it.is_empty() {
            continue;
        }
        let (command, env) = command(registry, &of_it);
        let process = exec(inner, source, &sandbox.0, &command, &env, false).await?;
        let end = process.wait().await.map_err(|error| error.to_string())?;
        if end.code != Some(0) {
            let stderr = process.stderr().kept();
            let tail = &stderr[stderr.len().saturating_sub(500)..];
            let said = String::from_utf8_lossy(tail);
            return Err(format!("its packages could not be installed: {}", said.trim()));
        }
    }
    let snapshot = sandbox.0.snapshot().await.map_err(|error| error.to_string())?;
    sandbox.0.stop().await;
    Ok(snapshot.to_bytes())
}

fn command(
    registry: PackageRegistry,
    packages: &[&Package],
) -> (Vec<String>, BTreeMap<String, String>) {
    let (words, separator): (&[&str], &str) = match registry {
        PackageRegistry::Pypi => (
            &[
                "sh",
                "-c",
                PIP,
                "pip",
                "install",
                "--quiet",
                "--no-input",
                "--no-cache-dir",
                "--disable-pip-version-check",
                "--no-compile",
                "--target",
                PYTHON,
            ],
            "==",
        ),
        // Scripts of packages do not run: they are the usual way of an attack.
        PackageRegistry::Npm => (
            &[
                "npm",
                "install",
                "--silent",
                "--no-audit",
                "--no-fund",
                "--ignore-scripts",
                "--prefix",
                NODE,
            ],
            "@",
        ),
    };
    let named =
        packages.iter().map(|package| format!("{}{separator}{}", package.name, package.version));
    let command = words.iter().map(|word| (*word).to_owned()).chain(named).collect();
    let env = [
        ("HOME", "/tmp"),
        ("PIP_CERT", AUTHORITIES),
        ("NODE_EXTRA_CA_CERTS", AUTHORITIES),
        ("npm_config_cache", "/tmp/npm"),
        ("npm_config_update_notifier", "false"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    (command, env.into())
}
