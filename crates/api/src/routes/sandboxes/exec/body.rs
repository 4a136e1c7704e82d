//! What can be asked of a program that is to be started.

use std::{collections::BTreeMap, time::Duration};

use ringfence_sandbox::session::{ExecRequest, Input, Size};
use ringfence_types::Json;
use utoipa::ToSchema;

use super::KEPT;
use crate::{
    base64, fields::Fields, problem::Problem, routes::sandboxes::create::environment,
    shared::Shared,
};

/// A program to be run.
#[derive(ToSchema)]
#[schema(as = ExecRequest)]
#[expect(dead_code, reason = "it documents what `read` reads field by field")]
pub(crate) struct ExecBody {
    /// Program and arguments, without NUL characters; a name without a slash is looked up in `PATH`.
    #[schema(min_items = 1, example = json!(["python3", "-c", "print(6 * 7)"]))]
    argv: Vec<String>,
    /// Added to the sandbox's environment.
    env: Option<BTreeMap<String, String>>,
    /// Where it starts; `/workspace` without.
    #[schema(pattern = "^/[^\\x00]{0,4094}$", example = "/workspace")]
    cwd: Option<String>,
    /// What it can read, as text. At most one of the three ways to say it.
    stdin: Option<String>,
    /// What it can read, as bytes in base64.
    #[schema(content_encoding = "base64")]
    stdin_base64: Option<String>,
    /// It can read what is sent to its place later.
    stdin_open: Option<bool>,
    /// Gives it a terminal of this size.
    terminal: Option<SizeBody>,
    /// After how many seconds it is killed; 60 without.
    #[schema(exclusive_minimum = 0.0, maximum = 86400.0)]
    timeout_secs: Option<f64>,
    /// How many seconds to wait for its end; 300 without, 0 answers at once.
    #[schema(minimum = 0.0, maximum = 300.0)]
    wait: Option<f64>,
}

/// The size of a terminal in characters.
#[derive(ToSchema)]
#[schema(as = TerminalSize)]
#[expect(dead_code, reason = "it documents what `size` reads field by field")]
pub(crate) struct SizeBody {
    #[schema(minimum = 1, maximum = 1000, example = 24)]
    rows: u16,
    #[schema(minimum = 1, maximum = 1000, example = 80)]
    columns: u16,
}

/// What was asked for.
pub(super) struct Asked {
    pub(super) argv: Vec<String>,
    pub(super) exec: ExecRequest,
    pub(super) is_open: bool,
    pub(super) wait: Duration,
}

/// A day: longer ones are services, for which a sandbox's lifetime is the bound.
const LONGEST: f64 = 86_400.0;

pub(super) fn read(shared: &Shared, body: &Json) -> Result<Asked, Problem> {
    let mut fields = Fields::of(body)?;
    let argv: Option<Vec<String>> = fields.required("argv");
    if argv.as_ref().is_some_and(|argv| argv.first().is_none_or(String::is_empty)) {
        fields.fault("argv", "must name a program");
    }
    if argv.iter().flatten().any(|arg| arg.contains('\0')) {
        fields.fault("argv", "arguments cannot hold NUL");
    }
    let env = environment(&mut fields);
    let cwd = directory(&mut fields);
    let stdin = stdin(&mut fields);
    let terminal = fields.inner("terminal", size).flatten();
    let usual = LONGEST.min(60.0);
    let timeout = seconds(&mut fields, "timeout_secs", usual, (f64::MIN_POSITIVE, LONGEST));
    let most = shared.config.max_wait.as_secs_f64();
    let wait = seconds(&mut fields, "wait", most, (0.0, most));
    fields.finish(argv).map(|argv| {
        let usual = ExecRequest::new(argv.clone());
        let exec = ExecRequest {
            env,
            cwd: cwd.unwrap_or_else(|| usual.cwd.clone()),
            output: Some(KEPT),
            timeout: Some(timeout.max(Duration::from_micros(1))),
            ..usual
        };
        let is_open = stdin == Input::Open || terminal.is_some();
        Asked { argv, exec: ExecRequest { stdin, terminal, ..exec }, is_open, wait }
    })
}

/// Where a program starts.
pub(in crate::routes::sandboxes) fn directory(fields: &mut Fields<'_>) -> Option<String> {
    let path: String = fields.optional("cwd")?;
    if !path.starts_with('/') || path.contains('\0') || path.len() > 4_095 {
        fields.fault("cwd", "must be absolute, without NUL, and at most 4095 bytes long");
    }
    Some(path)
}

/// One of three ways, or none.
fn stdin(fields: &mut Fields<'_>) -> Input {
    let text: Option<String> = fields.optional("stdin");
    let coded: Option<String> = fields.optional("stdin_base64");
    let open = fields.optional::<bool>("stdin_open").unwrap_or(false);
    let ways = usize::from(text.is_some()) + usize::from(coded.is_some()) + usize::from(open);
    if ways > 1 {
        fields.fault("stdin", "only one of `stdin`, `stdin_base64` and `stdin_open` can be given");
    }
    let bytes = coded.map(|coded| base64::decode(&coded));
    match (text, bytes) {
        (Some(text), _) => Input::Bytes(text.into_bytes()),
        (None, Some(Some(bytes))) => Input::Bytes(bytes),
        (None, Some(None)) => {
            fields.fault("stdin_base64", "is not base64");
            Input::Empty
        }
        (None, None) if open => Input::Open,
        (None, None) => Input::Empty,
    }
}

/// The size of a terminal. `None` means that a fault was noted.
pub(super) fn size(fields: &mut Fields<'_>) -> Option<Size> {
    let mut side = |name: &str| {
        let side: u16 = fields.required(name)?;
        if !(1..=1_000).contains(&side) {
            fields.fault(name, "must be from 1 to 1000");
            return None;
        }
        Some(side)
    };
    let (rows, columns) = (side("rows"), side("columns"));
    Some(Size { rows: rows?, columns: columns? })
}

/// A span of seconds within bounds, the usual one without.
pub(in crate::routes::sandboxes) fn seconds(
    fields: &mut Fields<'_>,
    name: &str,
    usual: f64,
    (least, most): (f64, f64),
) -> Duration {
    let secs = fields.optional::<f64>(name).unwrap_or(usual);
    if !(least..=most).contains(&secs) {
        let from = if least > 0.0 { "above 0" } else { "at least 0" };
        fields.fault(name, format!("must be {from} and at most {most}"));
        return Duration::ZERO;
    }
    Duration::from_secs_f64(secs)
}
