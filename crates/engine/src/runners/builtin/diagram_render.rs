//! `diagram_render`: Graphviz source as SVG, by the `dot` of the root in a sandbox.

use std::time::Duration;

use ringfence_policy::{Action, Permit};
use ringfence_sandbox::{Program, Report, Request, Stdin};
use ringfence_types::{Bytes, CallError, CallFiles, ErrorCode, Limits};
use serde_json::{Value, json};

use super::{Builtin, Job, UsedSandbox, error, object, produced, text};
use crate::runners::{
    program::{failed, sandboxed},
    work::Started,
};

pub(super) const TOOL: Builtin = Builtin {
    name: "diagram_render",
    description: "Renders a diagram from Graphviz source (the DOT language) as SVG.",
    flags: &["none"],
    input: || {
        object(
            &["source"],
            json!({
                "source": {"type": "string", "minLength": 1, "maxLength": 500_000},
                "language": {"enum": ["graphviz"], "default": "graphviz"},
            }),
        )
    },
    output: || object(&["svg"], json!({"svg": {"type": "string"}})),
    argument_errors: &[(
        "language",
        "Only Graphviz is rendered: the renderer of Mermaid is a browser, which this server does not run",
    )],
    sandbox: UsedSandbox::New,
    queued: true,
    repeatable: false,
    action: || Action::ToolExecute,
    start: |permit, job| Box::pin(start(permit, job)),
};

async fn start(permit: Permit, job: Job<'_>) -> Started {
    let source = text(&job.args().to_value(), "source").to_owned();
    let argv = ["dot", "-Tsvg"].map(|word| word.as_bytes().to_vec());
    let limits = Limits {
        wall: Duration::from_secs(30),
        memory: Bytes::mib(512),
        ..job.entry.tool.limits.clone()
    };
    let request = Request {
        limits,
        stdin: Stdin::Bytes(source.into_bytes()),
        ..Request::new(Program::Command(argv.to_vec()))
    };
    let entry = job.entry.clone();
    let reading =
        Box::new(move |report: &Report, _: &CallFiles| produced(&entry, rendered(report)));
    sandboxed(&job, permit, request, reading).await
}

fn rendered(report: &Report) -> Result<Value, CallError> {
    if report.exit_code != Some(0) {
        return Err(failed(ErrorCode::CodeFailed, "the diagram was not rendered", report));
    }
    if report.stdout.truncated().is_some() {
        return Err(error(
            ErrorCode::OutputTooLarge,
            &"the picture is larger than the limit of output",
        ));
    }
    let svg = String::from_utf8(report.stdout.kept());
    let svg = svg.map_err(|_| error(ErrorCode::OutputInvalid, &"the picture is not text"))?;
    Ok(json!({"svg": svg}))
}
