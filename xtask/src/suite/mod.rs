//! `cargo xtask test`: set up, run all suites, print the result table.
//!
//! The suites run one after another: they measure time limits and count processes, and two suites on
//! two cores would distort both. A failing suite does not stop the next one.

mod attest;
mod browser;
mod cargo_tests;
mod failed_tests;
mod kafka;
mod machine;
mod mcp;
mod observe;
mod python;
mod rootless;
mod schemathesis;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use crate::prerequisites::{self, Need};
use crate::report::{self, Counts, Row};
use crate::servers::{self, Provided};
use crate::{host, settings, shell, tidy};

/// Suites besides the workspace tests; naming one as the filter runs it alone.
const OTHER_SUITES: &[&str] = &[
    "tidy",
    "drivers",
    "skills",
    "observe",
    "kafka",
    "attest",
    "mcp",
    "browser",
    "schemathesis",
    "rootless",
    "vm",
];

/// Runs the suites that the filter selects and prints the table.
pub fn run(filter: Option<&str>) -> Result<ExitCode> {
    let missing = prerequisites::provide()?;
    let mut rows = missing_rows(&missing);
    if filter.is_none_or(|filter| filter == "tidy") {
        rows.push(tidy_row()?);
    }
    let servers = servers::provide_meanwhile();
    let built = Staged::build();
    let servers = servers.join().map_err(|_| anyhow!("building servers panicked"))?;
    rows.extend(servers.iter().filter_map(server_row));
    match built {
        Ok(staged) => rows.extend(built_rows(&staged, filter, &missing, &servers)?),
        Err(problem) => {
            println!("FAILED build: {problem:#}");
            let (suite, against) = ("build".to_owned(), "this checkout".to_owned());
            let (took, failures) = (Duration::ZERO, vec![format!("{problem:#}")]);
            rows.push(Row { suite, against, counts: Counts::one(false), took, failures });
        }
    }
    println!("\n{}", report::render(&rows));
    let has_failed = rows.iter().any(|row| row.counts.failed > 0);
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Makes pictures of every page of the console in this folder.
pub fn screenshots(folder: &Path) -> Result<()> {
    prerequisites::provide()?;
    browser::screenshots(&Staged::build()?, folder)
}

/// Suites that need the binary.
fn built_rows(
    staged: &Staged,
    filter: Option<&str>,
    missing: &[Need],
    servers: &[Provided],
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let selected = |suite: &str| filter.is_none_or(|filter| filter == suite);
    if !filter.is_some_and(|filter| OTHER_SUITES.contains(&filter)) {
        rows.extend(cargo_tests::run(staged, filter, servers)?);
    }
    for suite in ["drivers", "skills"].into_iter().filter(|suite| selected(suite)) {
        rows.push(python::run(suite)?);
    }
    if selected("observe") {
        rows.push(observe::run(staged)?);
    }
    if selected("kafka") {
        rows.push(kafka::run(staged)?);
    }
    if selected("attest") {
        rows.push(attest::run(staged)?);
    }
    if selected("mcp") {
        rows.extend(mcp::run(staged)?);
    }
    if selected("browser") {
        rows.push(browser::run(staged)?);
    }
    if selected("schemathesis") {
        rows.push(schemathesis::run(staged)?);
    }
    if selected("rootless") {
        rows.push(rootless::run(staged)?);
    }
    if selected("vm") {
        rows.extend(machine::run(&staged.binary, missing)?);
    }
    Ok(rows)
}

/// Row of a check that did not run: a failure under CI, a counted skip elsewhere.
fn absent(suite: &str, against: &str, reason: &str) -> Row {
    let counts = if settings::is_ci() {
        Counts::one(false)
    } else {
        Counts { skipped: 1, ..Counts::default() }
    };
    println!("{} {suite}: {reason}", if counts.failed > 0 { "FAILED" } else { "SKIPPED" });
    let failures = Vec::from_iter((counts.failed > 0).then(|| reason.to_owned()));
    let (suite, against, took) = (suite.to_owned(), against.to_owned(), Duration::ZERO);
    Row { suite, against, counts, took, failures }
}

fn missing_rows(missing: &[Need]) -> Vec<Row> {
    if !missing.is_empty() {
        println!("missing packages: {}", prerequisites::install_hint(missing));
    }
    let row = |need: &Need| {
        let reason = format!("package is missing; needed for {}", need.used_by);
        absent(&format!("prerequisite {}", need.package), "this host", &reason)
    };
    missing.iter().map(row).collect()
}

/// Row of a server that was built now, or could not be.
fn server_row(provided: &Provided) -> Option<Row> {
    let Provided { server, program, took } = provided;
    let suite = format!("build {}", server.name);
    let against = format!("{} {}", server.source, server.version);
    match program {
        Ok(_) if took.is_zero() => None,
        Ok(_) => {
            let (counts, failures) = (Counts::one(true), Vec::new());
            Some(Row { suite, against, counts, took: *took, failures })
        }
        Err(problem) => Some(absent(&suite, &against, &format!("{problem:#}"))),
    }
}

fn tidy_row() -> Result<Row> {
    let started = Instant::now();
    let tree = tidy::Tree::read(&settings::workspace_root())?;
    let (mut counts, mut failures) = (Counts::default(), Vec::new());
    for rule in tidy::RULES {
        let problems = rule(&tree);
        tidy::print(&problems);
        let errors = problems.iter().filter(|problem| problem.is_error());
        failures.extend(errors.map(ToString::to_string));
        counts = counts.plus(Counts::one(!problems.iter().any(tidy::Problem::is_error)));
    }
    let (suite, against) = ("tidy".to_owned(), "this checkout".to_owned());
    Ok(Row { suite, against, counts, took: started.elapsed(), failures })
}

/// Copy of the built binary that every user can reach, in a temporary directory.
///
/// The target directory is often below a home that other users may not enter, and the rootless
/// suites run as another user.
#[derive(Debug)]
struct Staged {
    directory: PathBuf,
    binary: PathBuf,
}

impl Staged {
    fn build() -> Result<Self> {
        println!("building the binary");
        shell::run(shell::command(settings::cargo()).args(["build", "--package", "ringfence"]))?;
        let built = target_directory()?.join("debug/ringfence");
        let directory = std::env::temp_dir().join(format!("ringfence-test-{}", std::process::id()));
        Self::copy(&built, directory)
    }

    fn copy(built: &Path, directory: PathBuf) -> Result<Self> {
        let problem = || format!("stage `{}` in `{}`", built.display(), directory.display());
        fs::create_dir(&directory).with_context(problem)?;
        let staged = Self { binary: directory.join("ringfence"), directory: directory.clone() };
        fs::copy(built, &staged.binary).with_context(problem)?;
        for path in [&staged.directory, &staged.binary] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).with_context(problem)?;
        }
        Ok(staged)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn target_directory() -> Result<PathBuf> {
    let mut cargo = shell::command(settings::cargo());
    let text = shell::read(cargo.args(["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: Value = serde_json::from_str(&text).context("parse `cargo metadata`")?;
    match metadata["target_directory"].as_str() {
        Some(path) => Ok(PathBuf::from(path)),
        None => bail!("`cargo metadata` names no target directory"),
    }
}

fn this_host() -> String {
    host::describe(&host::identity())
}
