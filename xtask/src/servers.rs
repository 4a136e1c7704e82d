//! Third-party servers, built once from source and cached outside any checkout.
//!
//! Go's come from its module proxy, which checks its contents against a public log; Kafka's jars come
//! from Maven's registry, which checks their digests; Python packages come from the index that pip is
//! configured with. The version is part of the path: a cached build is
//! always of the wanted version.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ringfence_testkit::{Server, server, server::Source};

use crate::{bench::peers::tree, shell};

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
    thread::spawn(|| {
        provide_tree();
        server::ALL.iter().map(provide).collect()
    })
}

/// The tree that tests make an image of, built if it is not cached. Without it the tests of containers say
/// what is missing.
fn provide_tree() {
    let scratch = std::env::temp_dir().join(format!("ringfence-tree-{}", std::process::id()));
    let made = fs::create_dir_all(&scratch).context("make a directory");
    let built = made.and_then(|()| tree::archive(&scratch));
    if let Err(problem) = built {
        println!("cannot make a Debian tree: {problem:#}");
    }
    let _ = fs::remove_dir_all(&scratch);
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
    if let Source::Debian(package, _) = server.source {
        bail!("install the package `{package}`");
    }
    let kept = server.kept()?;
    let folder = kept.parent().context("a program is in a folder")?;
    let making = folder.with_extension(format!("making-{}", std::process::id()));
    fs::create_dir_all(&making).with_context(|| format!("create `{}`", making.display()))?;
    let built = install(server, &making).and_then(|()| put(&making, folder));
    let _ = fs::remove_dir_all(&making);
    built.map(|()| kept)
}

fn install(server: &Server, folder: &Path) -> Result<()> {
    match server.source {
        Source::Go(package) => install_go(package, server.version, folder),
        Source::Maven(artifacts) => fetch_jars(artifacts, server, folder),
        Source::Python(packages) => install_python(packages, &folder.join(server.name)),
        Source::Debian(..) => Ok(()),
    }
}

/// Builds without C and debug information, which only take time.
fn install_go(package: &str, version: &str, folder: &Path) -> Result<()> {
    let go = shell::find_program("go").context("no Go: install it from https://go.dev/dl")?;
    let mut install = shell::command(&go);
    install
        .args(["install", "-trimpath", "-ldflags=-s -w"])
        .arg(format!("{package}@{version}"))
        .env("CGO_ENABLED", "0")
        .env("GOBIN", folder)
        .env("GOFLAGS", "-buildvcs=false");
    shell::run(&mut install)
}

/// Makes a virtual environment with these packages and nothing that they depend on.
fn install_python(packages: &[&str], folder: &Path) -> Result<()> {
    let python = shell::find_program("python3").context("no Python: install `python3-venv`")?;
    shell::run(shell::command(&python).args(["-m", "venv"]).arg(folder))?;
    let mut install = shell::command(folder.join("bin/python"));
    install.args(["-m", "pip", "install", "--quiet", "--no-deps"]).args(packages);
    shell::run(&mut install)
}

/// Copies the jars of the artifacts and of all that they need into a folder named after the server.
fn fetch_jars(artifacts: &[&str], server: &Server, folder: &Path) -> Result<()> {
    let maven = shell::find_program("mvn").context("no Maven: install the package `maven`")?;
    let dependency = |artifact: &&str| {
        let (group, name) = artifact.split_once(':').unwrap_or((artifact, artifact));
        let version = server.version;
        format!(
            "<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>\
             <version>{version}</version></dependency>"
        )
    };
    let dependencies: String = artifacts.iter().map(dependency).collect();
    let project = format!(
        "<project><modelVersion>4.0.0</modelVersion><groupId>test</groupId>\
         <artifactId>servers</artifactId><version>1</version>\
         <dependencies>{dependencies}</dependencies></project>"
    );
    let file = folder.join("pom.xml");
    fs::write(&file, project).context("write a project for Maven")?;
    let output = format!("-DoutputDirectory={}", folder.join(server.name).display());
    let mut fetch = shell::command(&maven);
    fetch.args(["-q", "-B", "-f"]).arg(&file).args(["dependency:copy-dependencies", &output]);
    shell::run(&mut fetch)
}

/// Moves the build into the cache in one step, so that a cached program is complete.
fn put(making: &Path, folder: &Path) -> Result<()> {
    match fs::rename(making, folder) {
        // Another process built the same meanwhile.
        Err(_) if folder.exists() => Ok(()),
        moved => moved.with_context(|| format!("move it to `{}`", folder.display())),
    }
}
