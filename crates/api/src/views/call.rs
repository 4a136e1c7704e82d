//! View of a call.

use ringfence_engine::Progress;
use ringfence_types::{
    ApprovalId, ArtifactId, Call, CallError, CallFile, CallFiles, CallId, Cause, Decision, Digest,
    Finished, Flow, GivenArtifact, Isolation, Json, Layers, Memoised, Obligations, Outcome,
    PersonaId, Produced, Reason, Receipt, Scope, Scopes, SessionId, State, Stream, Timestamp,
    Truncated, Usage,
};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::hold::WaitsView;

/// A call with its current state. Fields that do not exist in its state are left out.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Call)]
pub(crate) struct CallView<'a> {
    /// Id of the call.
    #[schema(value_type = String)]
    id: CallId,
    /// State: `accepted`, `held`, `dispatched`, `running`, `cancelling`, `finished`, `denied`,
    /// `expired`, `cancelled` or `outcome_unknown`.
    state: &'static str,
    /// Name of the tool.
    tool: &'a str,
    /// Version of the tool.
    version: &'a str,
    /// Digest of that version.
    #[schema(value_type = String)]
    digest: Digest,
    /// Arguments that it runs with.
    #[schema(value_type = Object)]
    args: &'a Json,
    /// Requested arguments, if an approver edited them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    asked_args: Option<&'a Json>,
    /// Session of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    session_id: Option<&'a SessionId>,
    /// Persona that the call is made for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    persona_id: Option<&'a PersonaId>,
    /// Cause of the call, if no client asked for it directly: `parent`, the call that made it; `step` of a
    /// plan; `turn` of a conversation; `depth`, the number of calls above it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    cause: Option<&'a Cause>,
    /// The client's own data.
    #[schema(value_type = Object)]
    metadata: &'a Json,
    /// Time of acceptance.
    #[schema(value_type = String, format = DateTime)]
    accepted_at: Timestamp,
    /// Time of the last change of state.
    #[schema(value_type = String, format = DateTime)]
    changed_at: Timestamp,
    /// Decision of policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<DecisionView<'a>>,
    /// Reasons of a held or denied call, by rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    reasons: Option<&'a [Reason]>,
    /// Hold of a held call.
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<WaitsView<'a>>,
    /// Result of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    result: Option<&'a Json>,
    /// Error of a call without a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorView<'a>>,
    /// Outcome of its program.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    outcome: Option<&'a Outcome>,
    /// Resources used.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<UsageView>,
    /// Start of its sandbox: `cold`, `warm` or `zygote`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    isolation: Option<Isolation>,
    /// Isolation layers, active and absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    layers: Option<&'a Layers>,
    /// Source of the result, if nothing ran for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    memoised: Option<MemoisedView>,
    /// Duration of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<TimingsView>,
    /// Standard output.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<StreamView>,
    /// Standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<StreamView>,
    /// Files that its program left and that were stored as artifacts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    artifacts: Vec<FileView<'a>>,
    /// Files that were not stored: their number, and the first of them with the reasons.
    #[serde(skip_serializing_if = "Option::is_none")]
    artifacts_omitted: Option<OmittedView<'a>>,
    /// Labels of the sources of its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    taint: Vec<String>,
    /// Artifacts that its program was given: `path`, `artifact`, `version`, `digest`.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(value_type = Vec<Object>)]
    inputs: &'a [GivenArtifact],
    /// Hosts that were granted to its sandbox.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    network: &'a [String],
    /// Tools that its programs were allowed to call.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tools: &'a [String],
    /// Progress of its program, as it reported last; while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<ProgressView>,
    /// Exchanges with other servers: host, port, method, bytes, and the verdict of those refused.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(value_type = Vec<Object>)]
    egress: &'a [Flow],
    /// Digest of the arguments in the form of the skills API.
    inputs_hash: &'a str,
    /// Digest of the result in the form of the skills API.
    #[serde(skip_serializing_if = "Option::is_none")]
    outputs_hash: Option<&'a str>,
    /// Trace id.
    trace_id: &'a str,
    /// Links of the call.
    links: LinksView,
}

/// Answer to the cancellation of a call: the whole call only for keys that may read it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CancelledCall)]
#[serde(untagged)]
pub(crate) enum CancelView<'a> {
    /// For keys with scope `read`.
    Call(Box<CallView<'a>>),
    /// For other keys.
    State(CallStateView),
}

/// A call without its arguments, its result or anything else that needs scope `read`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CallState)]
// So that a document is either this or a whole call.
#[serde(deny_unknown_fields)]
pub(crate) struct CallStateView {
    /// Id of the call.
    #[schema(value_type = String)]
    id: CallId,
    /// As `state` of a call.
    state: &'static str,
}

/// Progress of a program.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CallProgress)]
pub(crate) struct ProgressView {
    /// Amount that is done.
    done: f64,
    /// Amount of all work, if it said.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<f64>,
    /// Message for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl<'a> CancelView<'a> {
    pub(crate) fn of(call: &'a Call, scopes: &Scopes) -> Self {
        match scopes.allow(Scope::Read) {
            true => Self::Call(Box::new(CallView::of(call))),
            false => Self::State(CallStateView { id: call.asked.id, state: call.state.name() }),
        }
    }
}

/// Decision of policy.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Decision)]
struct DecisionView<'a> {
    /// `allow`, `hold` or `deny`.
    verdict: &'static str,
    /// Reasons by rule.
    #[schema(value_type = Vec<Object>)]
    reasons: &'a [Reason],
    /// Obligations of an allowed call.
    #[serde(skip_serializing_if = "is_free")]
    #[schema(value_type = Option<Object>)]
    obligations: &'a Obligations,
    /// Name of the engine.
    engine: &'a str,
    /// Digest of the rules in force.
    #[schema(value_type = String)]
    policy: Digest,
    /// Digest of the document that was evaluated.
    #[schema(value_type = String)]
    input: Digest,
    /// The approval that allowed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    approval: Option<ApprovalId>,
    /// No engine answered, and the call ran because an operator set its tenant to fail open.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    fail_open: bool,
}

fn is_free(obligations: &&Obligations) -> bool {
    **obligations == Obligations::default()
}

/// Error of a call without a result.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CallError)]
struct ErrorView<'a> {
    /// Stable code.
    code: &'a str,
    /// Message for a person.
    message: &'a str,
    /// Details.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    details: Option<&'a Json>,
}

/// Resources used by a call.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Usage)]
struct UsageView {
    wall_ms: f64,
    cpu_user_ms: f64,
    cpu_system_ms: f64,
    memory_peak_bytes: Option<u64>,
    io_read_bytes: u64,
    io_written_bytes: u64,
    processes: u32,
}

/// The earlier call whose result was reused.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Memoised)]
struct MemoisedView {
    /// The call that ran.
    #[schema(value_type = String)]
    call_id: CallId,
    /// Time of its end.
    #[schema(value_type = String, format = DateTime)]
    ended_at: Timestamp,
    /// Index of its entry in the ledger.
    entry: u64,
    /// Leaf of that entry in the ledger's tree.
    #[schema(value_type = String)]
    leaf: Digest,
    /// Link to its receipt.
    #[schema(value_type = String)]
    receipt: Href,
}

/// Durations of a call.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Timings)]
struct TimingsView {
    /// Start time.
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// Duration of the run.
    duration_ms: f64,
    /// From acceptance to the end.
    total_ms: f64,
}

/// Stored part of an output stream.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OutputStream)]
struct StreamView {
    /// Bytes written by the program.
    length: u64,
    /// The gap in the middle: offset and number of dropped bytes.
    #[schema(value_type = Option<Object>)]
    truncated: Option<Truncated>,
    /// Link to the bytes.
    #[schema(value_type = String)]
    href: Href,
}

/// File that a call left, stored as an artifact.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CallFile)]
struct FileView<'a> {
    /// Path in the workspace.
    path: &'a str,
    /// Artifact.
    #[schema(value_type = String)]
    artifact: ArtifactId,
    /// Digest of the content.
    #[schema(value_type = String)]
    digest: Digest,
    /// Bytes of the content.
    size: u64,
    /// Media type, by the name of the file.
    media_type: &'a str,
    /// Link to the content.
    href: String,
}

/// Files of a call that were not stored.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OmittedFiles)]
struct OmittedView<'a> {
    /// Number of the files.
    count: u64,
    /// The first of them: `path` and `reason`.
    #[schema(value_type = Vec<Object>)]
    first: &'a [ringfence_types::OmittedFile],
}

fn files(finished: Option<&Finished>) -> Option<&CallFiles> {
    finished.and_then(|finished| finished.files.as_deref())
}

impl<'a> FileView<'a> {
    fn all(files: &'a CallFiles) -> Vec<Self> {
        files.stored.iter().map(Self::of).collect()
    }

    fn of(file: &'a CallFile) -> Self {
        let CallFile { path, artifact, digest, size, media_type } = file;
        let href = format!("/v1/artifacts/{artifact}/content?version=1");
        Self { path, artifact: *artifact, digest: *digest, size: *size, media_type, href }
    }
}

impl<'a> OmittedView<'a> {
    fn of(files: &'a CallFiles) -> Option<Self> {
        let count = files.omitted_count;
        (count > 0).then_some(Self { count, first: &files.omitted })
    }
}

/// Links of a call.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Links)]
struct LinksView {
    #[serde(rename = "self")]
    #[schema(value_type = String)]
    own: Href,
    #[schema(value_type = String)]
    events: Href,
    #[schema(value_type = String)]
    stdout: Href,
    #[schema(value_type = String)]
    stderr: Href,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    receipt: Option<Href>,
}

/// A path below a call's, written without a string in between.
#[derive(Debug)]
struct Href(CallId, &'static str);

impl Serialize for Href {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("/v1/calls/{}{}", self.0, self.1))
    }
}

impl<'a> CallView<'a> {
    pub(crate) fn of(call: &'a Call) -> Self {
        let (asked, id) = (&call.asked, call.asked.id);
        let finished = finished(call);
        let stream = |stream: &Stream, path| StreamView {
            length: stream.length,
            truncated: stream.truncated,
            href: Href(id, path),
        };
        Self {
            id,
            state: call.state.name(),
            tool: asked.tool.name.as_str(),
            version: &asked.tool.version,
            digest: asked.tool.digest,
            args: call.args(),
            asked_args: call.edited.as_ref().map(|_| &asked.args),
            session_id: asked.session.as_ref(),
            cause: asked.cause.as_deref(),
            persona_id: asked.persona.as_ref(),
            metadata: &asked.metadata,
            accepted_at: asked.accepted_at,
            changed_at: call.changed_at,
            decision: call.decision.as_ref().map(DecisionView::of),
            reasons: reasons(&call.state),
            hold: call.hold().map(|hold| WaitsView::of(call, hold)),
            result: finished.and_then(|finished| match &finished.produced {
                Produced::Result(result) => Some(result),
                Produced::Error(_) => None,
            }),
            error: error(call),
            outcome: finished.and_then(|finished| finished.outcome.as_ref()),
            usage: finished.and_then(|finished| finished.usage.as_ref()).map(UsageView::of),
            isolation: finished.and_then(|finished| finished.isolation),
            layers: finished.and_then(|finished| finished.layers.as_ref()),
            memoised: finished.and_then(|finished| finished.memoised).map(MemoisedView::of),
            timings: finished.map(|finished| TimingsView::of(call, finished)),
            stdout: finished.map(|finished| stream(&finished.stdout, "/output/stdout")),
            stderr: finished.map(|finished| stream(&finished.stderr, "/output/stderr")),
            artifacts: files(finished).map_or_else(Vec::new, FileView::all),
            artifacts_omitted: files(finished).and_then(OmittedView::of),
            taint: call.taint(),
            inputs: &[],
            network: &[],
            tools: &[],
            progress: None,
            egress: &[],
            inputs_hash: call.inputs_hash(),
            outputs_hash: finished
                .map(|finished| finished.outputs_hash.as_str())
                .filter(|hash| !hash.is_empty()),
            trace_id: &asked.trace_id,
            links: LinksView {
                own: Href(id, ""),
                events: Href(id, "/events"),
                stdout: Href(id, "/output/stdout"),
                stderr: Href(id, "/output/stderr"),
                receipt: call.state.is_final().then_some(Href(id, "/receipt")),
            },
        }
    }

    /// The call with the progress of its program.
    pub(crate) fn with_progress(mut self, progress: Option<Progress>) -> Self {
        self.progress =
            progress.map(|Progress { done, total, message }| ProgressView { done, total, message });
        self
    }

    /// The call with what only its receipt says.
    pub(crate) fn with_receipt(mut self, receipt: Option<&'a Receipt>) -> Self {
        if let Some(receipt) = receipt {
            (self.network, self.egress) = (&receipt.network, &receipt.egress);
            (self.inputs, self.tools) = (&receipt.inputs, &receipt.tools);
        }
        self
    }
}

pub(crate) fn finished(call: &Call) -> Option<&Finished> {
    match &call.state {
        State::Finished(finished) => Some(finished),
        _ => None,
    }
}

fn reasons(state: &State) -> Option<&[Reason]> {
    match state {
        State::Held(hold) => Some(&hold.reasons),
        State::Denied { reasons } | State::Expired { reasons } => Some(reasons),
        _ => None,
    }
}

/// The error of an ended call without a result.
fn error(call: &Call) -> Option<ErrorView<'_>> {
    let plain = |code, message| Some(ErrorView { code, message, details: None });
    match &call.state {
        State::Finished(finished) => match &finished.produced {
            Produced::Result(_) => None,
            Produced::Error(CallError { code, message, details }) => {
                Some(ErrorView { code: code.as_str(), message, details: details.as_ref() })
            }
        },
        State::Denied { .. } => plain("denied", "policy does not allow the call"),
        State::Expired { .. } => plain("expired", "the call was not approved in time"),
        State::Cancelled { .. } => plain("cancelled", "the call was cancelled"),
        State::OutcomeUnknown => plain(
            "outcome_unknown",
            "the server stopped while the call ran: its effect may have happened in full, in part or not at all",
        ),
        _ => None,
    }
}

impl<'a> DecisionView<'a> {
    fn of(decision: &'a Decision) -> Self {
        Self {
            verdict: decision.verdict.name(),
            reasons: &decision.reasons,
            obligations: &decision.obligations,
            engine: &decision.engine,
            policy: decision.policy,
            input: decision.input,
            approval: decision.approval,
            fail_open: decision.fail_open,
        }
    }
}

impl MemoisedView {
    fn of(Memoised { call, entry, leaf, ended_at }: Memoised) -> Self {
        Self { call_id: call, ended_at, entry, leaf, receipt: Href(call, "/receipt") }
    }
}

impl UsageView {
    fn of(usage: &Usage) -> Self {
        Self {
            wall_ms: millis(usage.wall),
            cpu_user_ms: millis(usage.cpu_user),
            cpu_system_ms: millis(usage.cpu_system),
            memory_peak_bytes: usage.memory_peak.map(|bytes| bytes.0),
            io_read_bytes: usage.io_read.0,
            io_written_bytes: usage.io_written.0,
            processes: usage.processes,
        }
    }
}

impl TimingsView {
    fn of(call: &Call, finished: &Finished) -> Self {
        Self {
            started_at: finished.started_at,
            duration_ms: millis(finished.duration),
            total_ms: millis(call.changed_at.since(call.asked.accepted_at)),
        }
    }
}

/// Milliseconds with microsecond precision.
pub(crate) fn millis(duration: std::time::Duration) -> f64 {
    duration.as_micros() as f64 / 1_000.0
}

/// Page of calls, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CallList)]
pub(crate) struct CallListView<'a> {
    pub(crate) calls: Vec<CallView<'a>>,
    /// Cursor of the next page; none at the end.
    pub(crate) next_cursor: Option<String>,
}
