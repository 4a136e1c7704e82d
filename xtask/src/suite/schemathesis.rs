//! Somebody else's idea of our API: schemathesis reads the OpenAPI document of a running server and
//! makes up requests, with a key and without.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{Staged, this_host};
use crate::report::{Counts, Row};
use crate::{settings, shell};

/// The one that this suite is known to work with.
const VERSION: &str = "4.32.5";

/// What must hold for every request it makes up.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,ignored_auth,\
                      unsupported_method";

/// Requests per operation: enough to meet every status, few enough for every change.
const EXAMPLES: &str = "12";

/// Streams that never end by themselves are tried by our own tests.
const STREAMS: &str = "/events$";

pub(super) fn run(staged: &Staged) -> Result<Row> {
    println!("schemathesis: made-up requests, with a key and without");
    let started = Instant::now();
    let program = environment()?;
    let server = Server::start(&staged.binary)?;
    let mut counts = Counts::default();
    for key in [Some(server.key.as_str()), None] {
        let mut made_up = shell::command(&program);
        made_up
            .args(["run", &format!("{}/openapi.json", server.url)])
            .args(["--checks", CHECKS, "--max-examples", EXAMPLES, "--seed", "1"])
            .args(["--phases", "examples,coverage,fuzzing", "--request-timeout", "60"])
            .args(["--exclude-path-regex", STREAMS, "--no-color", "--suppress-health-check", "all"])
            // It keeps a cache where it is started.
            .current_dir(&server.data)
            .stdin(Stdio::null());
        if let Some(key) = key {
            made_up.args(["--header", &format!("Authorization: Bearer {key}")]);
        }
        let passed = made_up.status().context("start schemathesis")?.success();
        counts = counts.plus(Counts::one(passed));
    }
    drop(server);
    let against = this_host();
    Ok(Row { suite: "schemathesis".to_owned(), against, counts, took: started.elapsed() })
}

/// A server of its own, ended with this value.
struct Server {
    process: Child,
    url: String,
    key: String,
    data: PathBuf,
}

impl Server {
    fn start(binary: &Path) -> Result<Self> {
        let data = std::env::temp_dir().join(format!("ringfence-api-{}", std::process::id()));
        let mut command = shell::command(binary);
        command
            .args(["serve", "--json", "--listen", "127.0.0.1:0", "--data"])
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut process = command.spawn().context("start the server")?;
        let stdout = process.stdout.take().context("its output is piped")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).context("read where it listens")?;
        let said: Value = serde_json::from_str(&line).context("the server did not start")?;
        let Some(url) = said["url"].as_str() else { bail!("the server names no address: {line}") };
        let key = fs::read_to_string(data.join("admin.key")).context("read the admin key")?;
        Ok(Self { process, url: url.to_owned(), key: key.trim().to_owned(), data })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.data);
    }
}

/// The program, installed once and kept in the cache.
fn environment() -> Result<PathBuf> {
    let cache = settings::cache_directory()?;
    let kept = cache.join(format!("schemathesis-{VERSION}"));
    let program = kept.join("bin/schemathesis");
    // Written last: an environment without it is not complete.
    let stamp = kept.join("complete");
    if stamp.exists() {
        return Ok(program);
    }
    println!("installing schemathesis {VERSION}");
    fs::create_dir_all(&cache).with_context(|| format!("create `{}`", cache.display()))?;
    shell::run(shell::command("/usr/bin/python3").args(["-m", "venv", "--clear"]).arg(&kept))?;
    let mut pip = shell::command(kept.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    shell::run(pip.arg(format!("schemathesis=={VERSION}"))).context("install schemathesis")?;
    fs::write(&stamp, "").context("note what was installed")?;
    Ok(program)
}
