//! Servers of others, built once from their sources and kept outside any checkout.
//!
//! They come from Go's module proxy, which checks what it delivers against a public log, and the
//! version is part of the path: a build that is there is the build that is wanted.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ringfence_testkit::{Server, server};

use crate::shell;

/// What came of providing one server.
#[derive(Debug)]
pub struct Provided {
    /// Which one.
    pub server: Server,
    /// Its program, or why there is none.
    pub program: Result<PathBuf>,
    /// How long building took; nothing if it was there.
    pub took: Duration,
}

/// Provides all of them on a thread, so that cargo can build meanwhile.
pub fn provide_meanwhile() -> JoinHandle<Vec<Provided>> {
    thread::spawn(|| server::ALL.iter().map(provide).collect())
}

/// The program of one, built if it was never built.
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

/// Without C and without what debuggers need: both only make it longer.
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

/// Moved in one step: a program that is there is whole.
fn put(making: &Path, folder: &Path) -> Result<()> {
    match fs::rename(making, folder) {
        // Somebody else built the same meanwhile.
        Err(_) if folder.exists() => Ok(()),
        moved => moved.with_context(|| format!("move it to `{}`", folder.display())),
    }
}
