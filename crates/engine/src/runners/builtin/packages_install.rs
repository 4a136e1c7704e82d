//! `packages_install`: packages of skills, installed in a sandbox and kept as a read-only layer.

use std::time::Duration;

use ringfence_policy::{Action, Permit};
use ringfence_sandbox::{Program, Report, Request};
use ringfence_types::{Bytes, CallError, CallFiles, ErrorCode, Limits};
use serde_json::{Value, json};

use super::{Builtin, Job, UsedSandbox, hosts_schema, object, produced};
use crate::{
    roots::{self, INSTALL_TOOL},
    runners::{
        program::{failed, sandboxed},
        work::Started,
    },
};

pub(super) const TOOL: Builtin = Builtin {
    name: INSTALL_TOOL,
    description: "Installs Python packages for skills, once, into a layer that their sandboxes can \
                  read. Skills ask for it by themselves.",
    flags: &["external_call"],
    input: || {
        object(
            &["requirements"],
            json!({
                "requirements": {
                    "type": "array", "minItems": 1, "maxItems": 64, "uniqueItems": true,
                    "items": {"type": "string", "pattern": ringfence_registry::REQUIREMENT, "maxLength": 200},
                },
                "hosts": hosts_schema(),
            }),
        )
    },
    output: || {
        let fields = json!({
            "layer": {"type": "string"}, "content": {"type": "string"},
            "files": {"type": "integer"},
        });
        object(&["layer", "content", "files"], fields)
    },
    argument_errors: &[],
    sandbox: UsedSandbox::New,
    queued: false,
    repeatable: false,
    action: || Action::ToolExecute,
    start: |permit, job| Box::pin(start(permit, job)),
};

/// Runs pip, also where the host has it as a wheel only.
const PIP: &str = include_str!("packages_install.py");

/// Directory of the workspace into which packages are installed.
const TARGET: &str = "packages";

async fn start(permit: Permit, job: Job<'_>) -> Started {
    let args = job.args().to_value();
    let asked = args.get("requirements").and_then(Value::as_array).into_iter().flatten();
    let requirements: Vec<String> =
        asked.filter_map(Value::as_str).map(ToOwned::to_owned).collect();
    let settings = job.inner().parts.settings.roots.clone();
    let mut argv: Vec<String> = ["python3", "-I", "-c", PIP, "install", "--no-input", "--quiet"]
        .into_iter()
        .chain(["--disable-pip-version-check", "--no-cache-dir", "--target", TARGET])
        .map(ToOwned::to_owned)
        .collect();
    if let Some(index) = &settings.python_index {
        argv.extend(["--index-url".to_owned(), index.clone()]);
        if let Some(rest) = index.strip_prefix("http://") {
            let host = rest.split('/').next().unwrap_or_default();
            argv.extend(["--trusted-host".to_owned(), host.to_owned()]);
        }
    }
    // Requirements cannot begin with a dash, and nothing behind this is an option.
    argv.push("--".to_owned());
    argv.extend(requirements.iter().cloned());
    let program = Program::Command(argv.into_iter().map(String::into_bytes).collect());
    let limits = Limits {
        wall: Duration::from_secs(600),
        // The workspace is in memory, and has to fit into it.
        memory: Bytes::gib(2),
        processes: 64,
        disk: Bytes::gib(1),
        inodes: 128 * 1024,
        ..job.entry.tool.limits.clone()
    };
    let request = Request { limits, ..Request::new(program) };
    let entry = job.entry.clone();
    let reading = Box::new(move |report: &Report, _: &CallFiles| {
        let given = installed(report, &settings, &requirements);
        produced(&entry, given)
    });
    sandboxed(&job, permit, request, reading).await
}

fn installed(
    report: &Report,
    settings: &roots::RootSettings,
    requirements: &[String],
) -> Result<Value, CallError> {
    if report.exit_code != Some(0) {
        return Err(failed(ErrorCode::CodeFailed, "the packages were not installed", report));
    }
    let digest = settings.layer_digest(requirements);
    let layer = settings.layer(&digest);
    let problem = |error: std::io::Error| CallError {
        code: ErrorCode::RootUnavailable,
        message: format!("the packages cannot be kept: {error}"),
        details: None,
    };
    let none = || problem(std::io::Error::other("the sandbox left no files"));
    let workspace = report.workspace.as_ref().ok_or_else(none)?;
    if layer.is_dir() {
        std::fs::remove_dir_all(&layer).map_err(problem)?;
    }
    let (files, content) = roots::keep_layer(workspace, TARGET, &layer).map_err(problem)?;
    Ok(json!({"layer": digest.to_string(), "content": content.to_string(), "files": files}))
}
