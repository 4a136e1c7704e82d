//! The console in a real browser: the distribution's Chromium, driven by Playwright.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use super::{Staged, python};
use crate::report::Row;
use crate::{settings, shell};

/// Package versions that this suite is known to work with. The second brings axe-core.
const PACKAGES: &[&str] = &["playwright==1.65.2", "axe-playwright-python==0.1.8"];

const FOLDER: &str = "crates/console/tests/browser";

pub(super) fn run(staged: &Staged) -> Result<Row> {
    println!("browser: the console in Chromium");
    let started = Instant::now();
    let mut python = shell::command(python::environment("browser", PACKAGES)?);
    python.env("RINGFENCE_BINARY", &staged.binary);
    python::unittest("browser", python, FOLDER, started)
}

/// Pictures of every page, in light and dark.
pub(super) fn screenshots(staged: &Staged, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("create `{}`", folder.display()))?;
    let mut python = shell::command(python::environment("browser", PACKAGES)?);
    python.env("RINGFENCE_BINARY", &staged.binary);
    let script = settings::workspace_root().join(FOLDER).join("screenshots.py");
    shell::run(python.arg("-B").arg(script).arg(folder))
}
