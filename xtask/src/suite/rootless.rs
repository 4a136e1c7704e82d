//! The binary as an ordinary user of this host: uid 65534, no groups, no capabilities.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

use super::{Staged, absent};
use crate::report::{Counts, Row};
use crate::steps::{self, Observation, STEPS, Step};
use crate::{host, shell};

const IDENTITY: &str = "uid 65534, no capabilities";

pub(super) fn run(staged: &Staged) -> Result<Row> {
    let against = host::describe(IDENTITY);
    if !host::is_root() {
        return Ok(absent("rootless", &against, "only root can become another user"));
    }
    if shell::find_program("setpriv").is_none() {
        return Ok(absent("rootless", &against, "`setpriv` is missing"));
    }
    let started = Instant::now();
    let (mut counts, mut failures) = (Counts::default(), Vec::new());
    for step in STEPS.iter().filter(|step| !step.needs_cgroup) {
        println!("rootless: {}", step.name);
        let (more, problem) = steps::judge(step, &observe(&mut as_user(staged, step))?);
        failures.extend(problem.map(|problem| format!("{}: {problem}", step.name)));
        counts = counts.plus(more);
    }
    Ok(Row { suite: "rootless".to_owned(), against, counts, took: started.elapsed(), failures })
}

fn as_user(staged: &Staged, step: &Step) -> Command {
    let mut command = shell::command("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(["--inh-caps=-all", "--bounding-set=-all"])
        .arg(&staged.binary)
        .args(step.arguments)
        .env("HOME", "/nonexistent")
        .current_dir("/");
    command
}

fn observe(command: &mut Command) -> Result<Observation> {
    let line = shell::describe(command);
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("start `{line}`"))?;
    let mut lines = Vec::new();
    for stream in [&output.stderr, &output.stdout] {
        lines.extend(String::from_utf8_lossy(stream).lines().map(str::to_owned));
    }
    lines.iter().for_each(|line| println!("{line}"));
    Ok(Observation { code: output.status.code().unwrap_or(-1), lines })
}
