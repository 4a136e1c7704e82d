//! MCP: the official conformance suite on the product's own router, and clients of others.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::{Staged, absent, python, target_directory, this_host};
use crate::report::{Counts, Row};
use crate::{settings, shell};

/// Python clients that this suite is known to work with.
const PYTHON_PACKAGES: &[&str] = &["mcp==2.3.0", "fastmcp==4.1.2"];

/// Packages from npm: the suite and the inspector need a newer Node than the distribution has.
const NODE_PACKAGES: &[&str] = &[
    "node@22",
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/inspector@2.12.0",
];

/// Revisions of the protocol, each with the number of scenarios on its frozen list.
const REVISIONS: [(&str, u64); 2] = [("2025-11-25", 30), ("2026-07-28", 37)];

const FOLDER: &str = "crates/mcp/tests/clients";

pub(super) fn run(staged: &Staged) -> Result<Vec<Row>> {
    println!("mcp: the official conformance suite, and clients of others");
    if shell::find_program("npm").is_none() {
        return Ok(vec![absent("mcp", "the conformance suite", "no npm: apt-get install npm")]);
    }
    let modules = node_modules()?;
    let mut rows = vec![conformance(&modules)?];
    let started = Instant::now();
    let mut python = shell::command(python::environment("mcp", PYTHON_PACKAGES)?);
    python
        .env("RINGFENCE_BINARY", &staged.binary)
        .env("RINGFENCE_NODE", node(&modules))
        .env("RINGFENCE_INSPECTOR", inspector(&modules));
    rows.push(python::unittest("mcp clients", python, FOLDER, started)?);
    Ok(rows)
}

/// Every scored server scenario of each revision.
fn conformance(modules: &Path) -> Result<Row> {
    let started = Instant::now();
    let server = Fixtures::start()?;
    let script = modules.join("@modelcontextprotocol/conformance/dist/index.js");
    let (mut counts, mut failures) = (Counts::default(), Vec::new());
    for (revision, scored) in REVISIONS {
        let mut suite = shell::command(node(modules));
        suite.arg(&script).args(["server", "--url", &server.url, "--requirements", revision]);
        let output = suite.stdin(Stdio::null()).output().context("start the conformance suite")?;
        let said = String::from_utf8_lossy(&output.stdout);
        println!("{said}{}", String::from_utf8_lossy(&output.stderr));
        let (passed, failed) = scenarios(&said);
        if !output.status.success() || (passed, failed) != (scored, 0) {
            failures.push(format!("revision {revision}: {passed} of {scored} scenarios passed"));
        }
        let failed = scored.saturating_sub(passed).max(u64::from(!output.status.success()));
        counts = counts.plus(Counts { passed, failed, ..Counts::default() });
    }
    let (suite, against) = ("mcp conformance".to_owned(), this_host());
    Ok(Row { suite, against, counts, took: started.elapsed(), failures })
}

/// Scored scenarios that passed and failed. The summary has a line `✓ name: …` or `✗ name: …` for each
/// scenario, and below it those that are not scored, indented.
fn scenarios(said: &str) -> (u64, u64) {
    let named = |line: &'_ str, mark: char| {
        let name = line.strip_prefix(mark)?.trim_start();
        Some(name.split([':', ' ']).next().unwrap_or_default().to_owned())
    };
    let is_unscored = |name: &String| {
        said.lines().filter(|line| line.starts_with(' ')).any(|line| {
            let line = line.trim_start();
            named(line, '✓').or_else(|| named(line, '✗')).as_ref() == Some(name)
        })
    };
    let count = |mark| {
        let names = said.lines().filter_map(|line| named(line, mark));
        names.filter(|name| !is_unscored(name)).count() as u64
    };
    (count('✓'), count('✗'))
}

/// The product with the fixtures of the suite; it ends when its input does.
struct Fixtures {
    child: Child,
    url: String,
}

impl Fixtures {
    fn start() -> Result<Self> {
        let mut cargo = shell::command(settings::cargo());
        // Of the whole workspace: with the features of this one package alone, everything below it
        // would be built once more.
        let build = ["build", "--workspace", "--example", "conformance"];
        shell::run(cargo.args(build))?;
        let program = target_directory()?.join("debug/examples/conformance");
        let mut command = shell::command(&program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("start the fixtures")?;
        let output = child.stdout.take().context("the fixtures have an output")?;
        let mut url = String::new();
        BufReader::new(output).read_line(&mut url).context("read their address")?;
        if url.trim().is_empty() {
            bail!("the fixtures did not start");
        }
        Ok(Self { child, url: url.trim().to_owned() })
    }
}

impl Drop for Fixtures {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Folder of the packages, installed once.
fn node_modules() -> Result<PathBuf> {
    let name = NODE_PACKAGES.join("-").replace(['/', '@'], "-");
    let kept = settings::cache_directory()?.join(format!("mcp-{name}"));
    let (modules, stamp) = (kept.join("node_modules"), kept.join("complete"));
    if stamp.exists() {
        return Ok(modules);
    }
    println!("installing {}", NODE_PACKAGES.join(", "));
    fs::create_dir_all(&kept).with_context(|| format!("create `{}`", kept.display()))?;
    let mut npm = shell::command("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--silent", "--prefix"]).arg(&kept);
    shell::run(npm.args(NODE_PACKAGES)).context("install what `mcp` needs")?;
    fs::write(&stamp, "").context("note what was installed")?;
    Ok(modules)
}

fn node(modules: &Path) -> PathBuf {
    modules.join(".bin/node")
}

fn inspector(modules: &Path) -> PathBuf {
    modules.join("@modelcontextprotocol/inspector/clients/launcher/build/index.js")
}

#[cfg(test)]
mod tests {
    use super::scenarios;

    #[test]
    fn scored_scenarios_are_counted() {
        let said = "=== SUMMARY ===\n✓ ping: 1 passed, 0 failed\n✗ caching: 1 passed, 2 failed\n\
                    ✗ tasks: 0 passed, 1 failed\n✓ polling: 1 passed, 0 failed\n\nTotal: …\n\
                    Not scored: 2\n  ✗ tasks (extension)\n  ✓ polling (pending)\n";
        assert_eq!(scenarios(said), (1, 1));
    }
}
