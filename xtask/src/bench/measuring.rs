//! Measuring binary: plan in, findings out.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::machine::{self, Quiet};
use crate::shell;

/// Starts it with these arguments; its standard error is shown.
pub(super) fn measure(bench: &Path, words: &[&str], plan: &Value) -> Result<String> {
    let mut child = shell::command(bench)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("start `{}`", bench.display()))?;
    let mut stdin = child.stdin.take().context("a pipe to the measuring binary")?;
    stdin.write_all(plan.to_string().as_bytes()).context("hand over the plan")?;
    drop(stdin);
    let output = child.wait_with_output().context("wait for the findings")?;
    if !output.status.success() {
        bail!("the measuring binary ended with {}", output.status);
    }
    String::from_utf8(output.stdout).context("the findings are not text")
}

/// Writes the findings and the machine's load to a file, if one was asked for.
pub(super) fn keep(file: Option<&Path>, text: &str, before: &Quiet, after: &Quiet) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    let findings: Value = serde_json::from_str(text)?;
    let all = json!({
        "machine": machine::describe(),
        "before": before.describe(),
        "after": after.describe(),
        "findings": findings,
    });
    fs::write(file, format!("{all}\n")).with_context(|| format!("write `{}`", file.display()))
}
