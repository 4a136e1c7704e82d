//! View of a program.

use std::sync::Arc;

use ringfence_engine::Program;
use ringfence_engine::sandbox::{
    Output,
    session::{ProcessEnd, ProcessUsage},
};
use ringfence_types::{CallId, Outcome, Timestamp, Truncated};
use serde::Serialize;
use utoipa::ToSchema;

use crate::views::call::millis;

/// A program and its end. Fields that do not exist in its state are null or left out.
#[derive(Serialize, ToSchema)]
#[schema(as = Exec)]
pub(crate) struct ExecView {
    /// Number of the program in its sandbox.
    id: u32,
    /// The call that started it.
    #[schema(value_type = String)]
    call_id: CallId,
    /// `running` or `ended`.
    state: &'static str,
    /// Program and arguments.
    #[schema(value_type = Vec<String>)]
    argv: Arc<[String]>,
    /// Process id inside the sandbox.
    pid: i32,
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// Whether it has a terminal; then all output is in `stdout`.
    terminal: bool,
    exit_code: Option<i32>,
    signal: Option<i32>,
    timed_out: bool,
    /// Outcome, with the limit it reached if one explains it.
    #[schema(value_type = Option<Object>)]
    outcome: Option<Outcome>,
    /// Standard output as text; invalid UTF-8 is replaced. Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
    /// Standard error. Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
    /// Bytes written to standard output.
    stdout_bytes: u64,
    stderr_bytes: u64,
    /// The gap in the middle, if bytes were dropped.
    #[schema(value_type = Option<Object>)]
    stdout_truncated: Option<Truncated>,
    #[schema(value_type = Option<Object>)]
    stderr_truncated: Option<Truncated>,
    duration_ms: Option<f64>,
    usage: Option<ProgramUsageView>,
}

/// Resources used by a program and the children it waited for.
#[derive(Serialize, ToSchema)]
#[schema(as = ExecUsage)]
pub(crate) struct ProgramUsageView {
    cpu_user_ms: f64,
    cpu_system_ms: f64,
    /// Largest resident memory of one process.
    memory_peak_bytes: u64,
    io_read_bytes: u64,
    io_written_bytes: u64,
}

/// Programs, oldest first.
#[derive(Serialize, ToSchema)]
#[schema(as = ExecList)]
pub(crate) struct ExecListView {
    pub(super) programs: Vec<ExecView>,
    pub(super) count: usize,
}

impl ExecView {
    /// The view with the stored output.
    pub(super) fn whole(program: &Program) -> Self {
        // Read first: a program that has ended has all of its output.
        let view = Self::brief(program);
        let text = |output: &Output| Some(String::from_utf8_lossy(&output.kept()).into_owned());
        let (stdout, stderr) = (program.process.stdout(), program.process.stderr());
        Self { stdout: text(stdout), stderr: text(stderr), ..view }
    }

    /// The view without the output.
    pub(super) fn brief(program: &Program) -> Self {
        let process = &program.process;
        let end = process.try_wait();
        let (stdout, stderr) = (process.stdout(), process.stderr());
        Self {
            id: process.id(),
            call_id: program.call,
            state: if end.is_some() { "ended" } else { "running" },
            argv: program.argv.clone(),
            pid: process.pid(),
            started_at: program.started_at,
            terminal: program.has_terminal,
            exit_code: end.as_ref().and_then(|end| end.code),
            signal: end.as_ref().and_then(|end| end.signal),
            timed_out: end.as_ref().is_some_and(|end| end.timed_out),
            duration_ms: end.as_ref().map(|end| millis(end.usage.wall)),
            usage: end.as_ref().map(|end| ProgramUsageView::of(&end.usage)),
            outcome: end.map(|end| end.outcome),
            stdout: None,
            stderr: None,
            stdout_bytes: stdout.total(),
            stderr_bytes: stderr.total(),
            stdout_truncated: stdout.truncated(),
            stderr_truncated: stderr.truncated(),
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state == "ended"
    }
}

impl ProgramUsageView {
    fn of(usage: &ProcessUsage) -> Self {
        Self {
            cpu_user_ms: millis(usage.cpu_user),
            cpu_system_ms: millis(usage.cpu_system),
            memory_peak_bytes: usage.memory_peak.0,
            io_read_bytes: usage.io_read.0,
            io_written_bytes: usage.io_written.0,
        }
    }
}

/// End of a program in the last event.
#[derive(Serialize)]
pub(super) struct EndView {
    exit_code: Option<i32>,
    signal: Option<i32>,
    timed_out: bool,
    outcome: Outcome,
    duration_ms: f64,
}

impl From<ProcessEnd> for EndView {
    fn from(end: ProcessEnd) -> Self {
        Self {
            exit_code: end.code,
            signal: end.signal,
            timed_out: end.timed_out,
            duration_ms: millis(end.usage.wall),
            outcome: end.outcome,
        }
    }
}
