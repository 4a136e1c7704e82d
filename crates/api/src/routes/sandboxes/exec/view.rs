//! A program as clients see it.

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

/// A program and what became of it. What does not exist in its state is null or left out.
#[derive(Serialize, ToSchema)]
#[schema(as = Exec)]
pub(crate) struct ExecView {
    /// Its number in the sandbox.
    id: u32,
    /// The call that started it.
    #[schema(value_type = String)]
    call_id: CallId,
    /// `running` or `ended`.
    state: &'static str,
    /// Program and arguments.
    #[schema(value_type = Vec<String>)]
    argv: Arc<[String]>,
    /// Its pid within the sandbox.
    pid: i32,
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// Whether it has a terminal; then all it writes is in `stdout`.
    terminal: bool,
    exit_code: Option<i32>,
    signal: Option<i32>,
    timed_out: bool,
    /// How it ended, with the limit it met if one explains it.
    #[schema(value_type = Option<Object>)]
    outcome: Option<Outcome>,
    /// What it printed, as text; bytes that are none are replaced. Left out of lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
    /// What it complained. Left out of lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
    /// Bytes it printed, kept or not.
    stdout_bytes: u64,
    stderr_bytes: u64,
    /// The middle that was not kept.
    #[schema(value_type = Option<Object>)]
    stdout_truncated: Option<Truncated>,
    #[schema(value_type = Option<Object>)]
    stderr_truncated: Option<Truncated>,
    duration_ms: Option<f64>,
    usage: Option<UsageView>,
}

/// What a program used, with those of its children that it waited for.
#[derive(Serialize, ToSchema)]
#[schema(as = ExecUsage)]
pub(crate) struct UsageView {
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
    /// With its output as far as it is kept.
    pub(super) fn whole(program: &Program) -> Self {
        // Asked first: an end that is told has all of its output.
        let view = Self::brief(program);
        let text = |output: &Output| Some(String::from_utf8_lossy(&output.kept()).into_owned());
        let (stdout, stderr) = (program.process.stdout(), program.process.stderr());
        Self { stdout: text(stdout), stderr: text(stderr), ..view }
    }

    /// Without its output.
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
            usage: end.as_ref().map(|end| UsageView::of(&end.usage)),
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

impl UsageView {
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

/// The end of a program as the last event tells it.
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
