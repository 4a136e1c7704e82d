//! `code_execute`: the caller's own code, in a sandbox of its own.

use ringfence_policy::{Action, Permit};
use ringfence_sandbox::{Language, Program, Report, Request};
use ringfence_types::{CallFile, CallFiles, ErrorCode, Json, Produced};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Builtin, Job, UsedSandbox, hosts_schema, image_schema, object, secrets_schema, text,
    tools_schema,
};
use crate::{
    runners::{
        program::{failed, sandboxed},
        work::Started,
    },
    validate,
};

pub(super) const TOOL: Builtin = Builtin {
    name: "code_execute",
    description: "Runs source text in a fresh sandbox and gives what it printed, the files it left and, \
                  for Python, the names it left. It has no network unless `hosts` are asked for and granted.",
    flags: &["none"],
    input: || {
        object(
            &["code"],
            json!({
                "code": {"type": "string", "maxLength": 1_000_000},
                "language": {"enum": ["python", "javascript", "bash"], "default": "python"},
                "hosts": hosts_schema(),
                "secrets": secrets_schema(),
                "tools": tools_schema(),
                "env": {
                    "type": "object", "additionalProperties": {"type": "string"},
                    "description": "Variables of its environment",
                },
                "files": {
                    "type": "object", "maxProperties": 64,
                    "description": "Files in its workspace by path: a text, {\"base64\": …}, or \
                                    {\"artifact\": …} with a digest or an id",
                },
                "limits": {
                    "type": "object",
                    "description": "Lower limits: wall_secs, memory_bytes, cpu_millis, processes",
                },
                "outputs": {
                    "type": "array", "items": {"type": "string"},
                    "description": "Patterns of the files that are stored when it ends; all by default",
                },
                "stdin": {"description": "Standard input, as the content of a file"},
                "image": image_schema(),
            }),
        )
    },
    output: || {
        let file = json!({
            "path": {"type": "string"}, "artifact": {"type": "string"},
            "digest": {"type": "string"}, "size": {"type": "integer"},
            "media_type": {"type": "string"},
        });
        let files =
            json!({"type": "array", "items": object(&["path", "artifact", "digest"], file)});
        let left = json!({
            "stdout": {"type": "string"}, "locals": {"type": "object"}, "files": files,
        });
        object(&["stdout", "locals"], left)
    },
    argument_errors: &[
        ("language", "Only Python, JavaScript and Bash code execution is supported"),
        ("code", "Provide source via 'code'"),
    ],
    sandbox: UsedSandbox::New,
    queued: true,
    repeatable: true,
    action: || Action::ToolExecute,
    start: |permit, job| Box::pin(start(permit, job)),
};

/// Program that runs the code as a main program and returns its plain variables; values that are
/// not JSON as their repr.
const PYTHON: &str = include_str!("code_execute.py");

async fn start(permit: Permit, job: Job<'_>) -> Started {
    let (entry, args) = (job.entry, job.args().to_value());
    let code = text(&args, "code").to_owned();
    let program = match args.get("language").and_then(Value::as_str) {
        Some("javascript") => plain(Language::Javascript, code),
        Some("bash") => plain(Language::Bash, code),
        _ => Program::Call {
            language: Language::Python,
            code: PYTHON.into(),
            // Under a driver's path, whose frames are hidden: a traceback begins with the caller's
            // code.
            file: "/.ringfence/code_execute.py".to_owned(),
            function: Some("execute".to_owned()),
            // An object with one text is never too deep.
            args: Json::from_value(&json!({"code": code})).unwrap_or_else(Json::empty_object),
            ahead: Some(entry.tool.digest),
        },
    };
    let tool = entry.clone();
    let reading = Box::new(move |report: &Report, files: &CallFiles| match result(report, files) {
        Ok(result) => validate::output(&tool, result),
        Err(error) => Produced::Error(error),
    });
    let request = Request { limits: entry.tool.limits.clone(), ..Request::new(program) };
    sandboxed(&job, permit, request, reading).await
}

fn plain(language: Language, code: String) -> Program {
    Program::Code { language, code, args: Vec::new() }
}

fn result(report: &Report, files: &CallFiles) -> Result<Json, ringfence_types::CallError> {
    if report.exit_code != Some(0) {
        return Err(failed(ErrorCode::CodeFailed, "the code failed", report));
    }
    let stdout = String::from_utf8_lossy(&report.stdout.kept()).into_owned();
    // The code owns the result channel: it may have closed it or written anything.
    let locals = Json::parse(&report.result).ok().filter(Json::is_object);
    let locals = locals.unwrap_or_else(Json::empty_object);
    Json::of(&Left { files: &files.stored, locals, stdout })
        .map_err(|problem| super::error(ErrorCode::OutputInvalid, &problem))
}

/// Result of a program, with its numbers as written.
#[derive(Serialize)]
struct Left<'a> {
    /// Files that it left, as artifacts.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    files: &'a [CallFile],
    locals: Json,
    stdout: String,
}
