//! Skills: Python functions, called in a sandbox with the arguments as keywords.

use std::sync::Arc;

use async_trait::async_trait;
use ringfence_policy::Permit;
use ringfence_registry::{Entry, Runs};
use ringfence_sandbox::{InputFile, Language, Program, Report, Request, files::BoxPath};
use ringfence_types::{CallError, CallFiles, Digest, ErrorCode, Json, Origin, Produced, Tool};

use super::{
    Job, Runner,
    program::{failed, sandboxed},
    work::{Started, ended, failure},
};
use crate::given::{self, Takes};

/// Runner of skills.
#[derive(Debug)]
pub(super) struct Skills;

#[async_trait]
impl Runner for Skills {
    fn takes(&self, _entry: &Entry) -> Takes {
        Takes::Data
    }

    async fn start(&self, permit: Permit, job: Job<'_>) -> Started {
        let Runs::Python { code, module, function, files } = &job.entry.runs else {
            let message = format!("tool `{}` is not a skill", job.entry.tool.name);
            return ended(failure(ErrorCode::UnknownRunner, message, job.started_at));
        };
        let program = Program::Call {
            language: Language::Python,
            code: code.clone(),
            file: format!("{module}.py"),
            function: Some(function.clone()),
            args: given::own_args(job.args()).into_owned(),
            ahead: ahead(&job.entry.tool),
        };
        let files = files.iter().filter_map(|(path, content)| file(path, content)).collect();
        let limits = job.entry.tool.limits.clone();
        let request = Request { files, limits, ..Request::new(program) };
        let tool = job.entry.clone();
        let reading = Box::new(move |report: &Report, _: &CallFiles| handler_result(&tool, report));
        sandboxed(&job, permit, request, reading).await
    }
}

/// Zygote key of a trusted skill folder beside the server; none for uploaded skills.
fn ahead(tool: &Tool) -> Option<Digest> {
    (tool.origin != Origin::Upload).then_some(tool.digest)
}

fn file(path: &str, content: &Arc<[u8]>) -> Option<InputFile> {
    let path = BoxPath::parse(path).ok()?;
    Some(InputFile { path, mode: 0o644, content: content.clone() })
}

/// Result of a skill's handler.
fn handler_result(entry: &Entry, report: &Report) -> Produced {
    if report.exit_code != Some(0) {
        return Produced::Error(failed(
            ErrorCode::HandlerFailed,
            "Handler execution failed",
            report,
        ));
    }
    if let Some(truncated) = report.result_truncated {
        let message = format!("the result is {} bytes too long", truncated.dropped);
        return Produced::Error(CallError {
            code: ErrorCode::OutputTooLarge,
            message,
            details: None,
        });
    }
    match Json::parse(&report.result) {
        Ok(result) => crate::validate::output(entry, result),
        Err(error) => Produced::Error(CallError {
            code: ErrorCode::OutputInvalid,
            message: format!("Output validation failed for {}: {error}", entry.tool.name),
            details: None,
        }),
    }
}
