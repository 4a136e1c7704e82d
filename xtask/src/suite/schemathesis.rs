//! API fuzzing: schemathesis reads the OpenAPI document of a running server and generates requests,
//! with a key and without.

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

/// Version of schemathesis that this suite is known to work with.
const VERSION: &str = "4.32.5";
/// Version of the validator of OpenAPI documents.
const VALIDATOR: &str = "0.9.0";

/// Checks of every generated request.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,ignored_auth,\
                      unsupported_method,positive_data_acceptance";

/// Settings by operation. A request that fits the document is accepted or answered with 404. The
/// operations named here require more than a schema can say: that arguments fit their tool, files are
/// a skill, a document is a description of tools, a secret has one place, an instant is in the future, a range of time is short, an idempotency key is new (and its call
/// not erased), a call is not erased, a workspace fits into its memory. Filters of one entry are alternatives.
const SETTINGS: &str = r#"
[[operations]]
include-method = "POST"
include-path-regex = "^(/v1/calls|/v1/keys|/v1/sandboxes|/v1/sandboxes/restore|/v1/tool/request|/skills/register|/skills/execute)$"
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "410", "422", "429"]

[[operations]]
include-method = "PUT"
include-path = "/v1/secrets/{name}"
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "422", "429"]

[[operations]]
include-path = "/v1/tool-imports"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "403", "404", "409", "422", "429"]

[[operations]]
include-path-regex = '^/v1/calls/\{id\}'
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "410", "429"]

[[operations]]
include-path = "/v1/usage"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "403"]
"#;

/// Requests per operation: enough to meet every status, few enough for every change.
const EXAMPLES: &str = "12";

/// Operations left to our own tests: endless streams, sockets, those that need models, and those that take away
/// what other requests are about. Schemathesis would revoke its own key and all tools, and from then on see
/// nothing but refusals.
const EXCLUDED: &str = r"(/(events|terminal)$|^/v1/keys/\{id\}$|^/v1/tool-catalog/\{name\}$|^/v1/tools/\{name\}/(disable|quarantine|revoke)$|^/v1/model-profiles$|^/v1/llm/|^/v1/session/(action|message)$)";

pub(super) fn run(staged: &Staged) -> Result<Row> {
    println!("schemathesis: made-up requests, with a key and without");
    let started = Instant::now();
    let program = environment()?;
    let server = Server::start(&staged.binary)?;
    let is_valid = is_valid(&program, &server)?;
    let mut counts = Counts::one(is_valid);
    let mut failures = Vec::from_iter((!is_valid).then(|| "no OpenAPI document".to_owned()));
    fs::write(server.data.join("schemathesis.toml"), SETTINGS).context("write its settings")?;
    for key in [Some(server.key.as_str()), None] {
        let mut made_up = shell::command(&program);
        made_up
            .args(["--config-file", "schemathesis.toml"])
            .args(["run", &format!("{}/openapi.json", server.url)])
            .args(["--checks", CHECKS, "--max-examples", EXAMPLES, "--seed", "1"])
            .args(["--phases", "examples,coverage,fuzzing", "--request-timeout", "60"])
            .args([
                "--exclude-path-regex",
                EXCLUDED,
                "--no-color",
                "--suppress-health-check",
                "all",
            ])
            // It keeps a cache in its working directory.
            .current_dir(&server.data)
            .stdin(Stdio::null());
        if let Some(key) = key {
            made_up.args(["--header", &format!("Authorization: Bearer {key}")]);
        }
        let passed = made_up.status().context("start schemathesis")?.success();
        counts = counts.plus(Counts::one(passed));
        let whose = if key.is_some() { "with a key" } else { "without a key" };
        failures.extend((!passed).then(|| format!("{whose}: its own report is above")));
    }
    drop(server);
    let (suite, against) = ("schemathesis".to_owned(), this_host());
    Ok(Row { suite, against, counts, took: started.elapsed(), failures })
}

/// Whether the document is valid OpenAPI.
fn is_valid(schemathesis: &Path, server: &Server) -> Result<bool> {
    let document = server.data.join("openapi.json");
    let python = schemathesis.with_file_name("python");
    let mut fetch = shell::command(&python);
    fetch.args(["-c", "import sys, urllib.request as u; u.urlretrieve(*sys.argv[1:])"]);
    shell::run(fetch.arg(format!("{}/openapi.json", server.url)).arg(&document))?;
    let mut validator = shell::command(&python);
    validator.args(["-m", "openapi_spec_validator"]).arg(&document).stdin(Stdio::null());
    Ok(validator.status().context("start the validator")?.success())
}

/// Server for this suite; ended when dropped.
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

/// Program of schemathesis, installed once and cached.
fn environment() -> Result<PathBuf> {
    let cache = settings::cache_directory()?;
    let kept = cache.join(format!("schemathesis-{VERSION}-{VALIDATOR}"));
    let program = kept.join("bin/schemathesis");
    // Written last: an environment without it is incomplete.
    let stamp = kept.join("complete");
    if stamp.exists() {
        return Ok(program);
    }
    println!("installing schemathesis {VERSION}");
    fs::create_dir_all(&cache).with_context(|| format!("create `{}`", cache.display()))?;
    shell::run(shell::command("/usr/bin/python3").args(["-m", "venv", "--clear"]).arg(&kept))?;
    let mut pip = shell::command(kept.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    pip.arg(format!("schemathesis=={VERSION}"));
    pip.arg(format!("openapi-spec-validator=={VALIDATOR}"));
    shell::run(&mut pip).context("install schemathesis")?;
    fs::write(&stamp, "").context("note what was installed")?;
    Ok(program)
}
