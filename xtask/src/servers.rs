//! Third-party servers, built once from source and cached outside any checkout.
//!
//! They come from Go's module proxy, which checks its contents against a public log, and the version
//! is part of the path: a cached build is always of the wanted version.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ringfence_testkit::{Server, server};

use crate::shell;

/// Result of providing one server.
#[derive(Debug)]
pub struct Provided {
    /// The server.
    pub server: Server,
    /// Its program, or the failure.
    pub program: Result<PathBuf>,
    /// Duration of the build; zero if it was cached.
    pub took: Duration,
}

/// Builds all servers on a thread, so that cargo can build meanwhile.
pub fn provide_meanwhile() -> JoinHandle<Vec<Provided>> {
    thread::spawn(|| server::ALL.iter().map(provide).collect())
}

/// Program of a server, built if it is not cached.
pub fn provide(server: &Server) -> Provided {
    let started = Instant::now();
    if let Some(program) = server.program() {
        return Provided { server: *server, program: Ok(program), took: Duration::ZERO };
    }
    let Server { name, version, .. } = server;
    println!("building {name} {version}");
    let program = build(server);
    let took = started.elapsed();
    match &program {
        Ok(_) => println!("built {name} {version} in {:.1} s", took.as_secs_f64()),
        Err(problem) => println!("cannot build {name} {version}: {problem:#}"),
    }
    Provided { server: *server, program, took }
}

fn build(server: &Server) -> Result<PathBuf> {
    let go = shell::find_program("go").context("no Go: install it from https://go.dev/dl")?;
    let kept = server.kept()?;
    let folder = kept.parent().context("a program is in a folder")?;
    let making = folder.with_extension(format!("making-{}", std::process::id()));
    fs::create_dir_all(&making).with_context(|| format!("create `{}`", making.display()))?;
    let built = install(&go, server, &making).and_then(|()| put(&making, folder));
    let _ = fs::remove_dir_all(&making);
    built.map(|()| kept)
}

/// Builds without C and debug information, which only take time.
fn install(go: &Path, server: &Server, folder: &Path) -> Result<()> {
    let mut install = shell::command(go);
    install
        .args(["install", "-trimpath", "-ldflags=-s -w"])
        .arg(format!("{}@{}", server.package, server.version))
        .env("CGO_ENABLED", "0")
        .env("GOBIN", folder)
        .env("GOFLAGS", "-buildvcs=false");
    shell::run(&mut install)
}

/// Moves the build into the cache in one step, so that a cached program is complete.
fn put(making: &Path, folder: &Path) -> Result<()> {
    match fs::rename(making, folder) {
        // Another process built the same meanwhile.
        Err(_) if folder.exists() => Ok(()),
        moved => moved.with_context(|| format!("move it to `{}`", folder.display())),
    }
}
