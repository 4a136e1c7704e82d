//! Programs of manifests: run in a sandbox with the arguments on standard input and in `TOOL_PARAMS`.

use async_trait::async_trait;
use ringfence_policy::Permit;
use ringfence_registry::{Entry, Runs};
use ringfence_sandbox::{InputFile, Program, Report, Request, Stdin, files::BoxPath};
use ringfence_types::{CallError, CallFiles, ErrorCode, Json, Produced};
use serde_json::json;

use super::{
    Job, Runner,
    program::{failed, sandboxed},
    work::{Started, ended, failure},
};
use crate::validate;

/// Variable with the arguments as JSON.
const PARAMS: &str = "TOOL_PARAMS";

/// Bytes of arguments up to which they are in `TOOL_PARAMS`: the kernel takes no longer variable.
const MAX_PARAMS: usize = 120 << 10;

/// Runner of programs.
#[derive(Debug)]
pub(super) struct Commands;

#[async_trait]
impl Runner for Commands {
    async fn start(&self, permit: Permit, job: Job<'_>) -> Started {
        let Runs::Command(command) = &job.entry.runs else {
            let message = format!("tool `{}` is not a program", job.entry.tool.name);
            return ended(failure(ErrorCode::UnknownRunner, message, job.started_at));
        };
        let argv = command.argv.iter().map(|word| word.clone().into_bytes()).collect();
        let mut request = Request::new(Program::Command(argv));
        request.limits = job.entry.tool.limits.clone();
        let files = command.files.iter().filter_map(|(path, content)| {
            let (path, content) = (BoxPath::parse(path).ok()?, content.as_bytes().into());
            Some(InputFile { path, mode: 0o755, content })
        });
        request.files = files.collect();
        if command.image.is_some() && job.inner().parts.containers.is_some() {
            // The image says where its programs start.
            request.cwd = String::new();
        }
        let args = job.args().as_str();
        request.stdin = Stdin::Bytes(args.as_bytes().to_vec());
        if args.len() <= MAX_PARAMS {
            request.env.insert(PARAMS.to_owned(), args.to_owned());
        }
        let tool = job.entry.clone();
        let reading = Box::new(move |report: &Report, _: &CallFiles| result(&tool, report));
        sandboxed(&job, permit, request, reading).await
    }
}

/// Result of a program: the JSON that it printed, or what it printed as text.
fn result(entry: &Entry, report: &Report) -> Produced {
    if report.exit_code != Some(0) {
        return Produced::Error(failed(ErrorCode::HandlerFailed, "the tool failed", report));
    }
    if report.stdout.truncated().is_some() {
        let message = "the tool printed more than its limit of output".to_owned();
        let code = ErrorCode::OutputTooLarge;
        return Produced::Error(CallError { code, message, details: None });
    }
    let printed = report.stdout.kept();
    let parsed = Json::parse(&printed).ok();
    let text = || {
        let text = String::from_utf8_lossy(&printed);
        Json::plain(&json!({"stdout": text}))
    };
    validate::output(entry, parsed.unwrap_or_else(text))
}
