//! Trace spans of a call: one for the call, and one below it for each stage.
//!
//! The stages follow each other without a gap, so one reading of the clock ends one and begins the
//! next. A call whose trace is not recorded skips all of this.

use ringfence_types::{
    Asked, Attribute, Call, Finished, Produced, Span, SpanId, SpanKind, State, Timestamp,
};

use crate::{active_call::ActiveCall, engine::Inner, trace::new_span};

/// One stage of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Policy is asked.
    Decide,
    /// The call waits for a place.
    Queue,
    /// The tool runs.
    Run,
    /// The step is recorded.
    Record,
}

/// Stages of a call so far, with their durations.
#[derive(Debug)]
pub(crate) struct StageSpans {
    began: Timestamp,
    since: Timestamp,
    stages: Vec<(Stage, Timestamp, Timestamp)>,
}

impl StageSpans {
    /// `None` if the trace of the call is not recorded.
    pub(crate) fn of(inner: &Inner, asked: &Asked) -> Option<Box<Self>> {
        inner.parts.telemetry.spans.as_ref()?;
        if !asked.trace_parent.is_some_and(|parent| parent.is_sampled()) {
            return None;
        }
        let now = inner.parts.clock.now();
        Some(Box::new(Self { began: now, since: now, stages: Vec::with_capacity(5) }))
    }
}

impl ActiveCall {
    /// Ends a stage; the next begins at the same instant.
    pub(crate) fn end_stage(&mut self, stage: Stage) {
        if let Some(spans) = &mut self.stage_spans {
            let now = self.inner.parts.clock.now();
            spans.stages.push((stage, spans.since, now));
            spans.since = now;
        }
    }

    /// Emits one span for the call and one per stage.
    pub(crate) fn emit_spans(&mut self) {
        let Some(taken) = self.stage_spans.take() else { return };
        let Some(spans) = &self.inner.parts.telemetry.spans else { return };
        let Some(whole) = whole(&self.call, &taken) else { return };
        for (stage, began, ended) in taken.stages {
            spans.take(part(&whole, &self.call, stage, began, ended));
        }
        spans.take(whole);
    }
}

fn whole(call: &Call, spans: &StageSpans) -> Option<Span> {
    let asked = &call.asked;
    let failure = failure(&call.state);
    let mut attributes: Vec<(&'static str, Attribute)> = vec![
        ("gen_ai.operation.name", "execute_tool".into()),
        ("gen_ai.tool.name", asked.tool.name.to_string().into()),
        ("gen_ai.tool.type", "function".into()),
        ("gen_ai.tool.call.id", asked.id.to_string().into()),
        ("ringfence.tool.version", asked.tool.version.clone().into()),
        ("ringfence.tenant.id", asked.tenant.to_string().into()),
        ("ringfence.call.state", call.state.name().into()),
    ];
    let persona = asked.persona.as_ref().map(|id| ("ringfence.persona.id", id.to_string().into()));
    let session =
        asked.session.as_ref().map(|id| ("gen_ai.conversation.id", id.to_string().into()));
    attributes.extend([persona, session].into_iter().flatten());
    attributes.extend(failure.clone().map(|code| ("error.type", code.into())));
    Some(Span {
        context: asked.trace_context()?,
        parent: asked.trace_parent.map(|parent| parent.span),
        is_parent_remote: false,
        state: asked.trace_state.clone(),
        name: format!("execute_tool {}", asked.tool.name).into(),
        kind: SpanKind::Internal,
        started_at: spans.began,
        ended_at: spans.since,
        attributes,
        failure,
    })
}

/// Error code of a failed call; a program's own words may contain user data.
fn failure(state: &State) -> Option<String> {
    match state {
        State::Finished(finished) => match &finished.produced {
            Produced::Error(error) => Some(error.code.to_string()),
            Produced::Result(_) => None,
        },
        State::Denied { .. } | State::Cancelled { .. } | State::OutcomeUnknown => {
            Some(state.name().to_owned())
        }
        _ => None,
    }
}

fn part(whole: &Span, call: &Call, stage: Stage, began: Timestamp, ended: Timestamp) -> Span {
    let finished = match &call.state {
        State::Finished(finished) => Some(finished.as_ref()),
        _ => None,
    };
    let (name, attributes) = match stage {
        Stage::Decide => ("decide", decision(call)),
        Stage::Queue => ("queue", Vec::new()),
        Stage::Run => match finished.filter(|finished| finished.isolation.is_some()) {
            Some(finished) => ("sandbox", sandbox(finished)),
            None => ("run", Vec::new()),
        },
        Stage::Record => ("record", Vec::new()),
    };
    let span: SpanId = new_span();
    Span {
        context: whole.context.with_span(span),
        parent: Some(whole.context.span),
        is_parent_remote: false,
        state: whole.state.clone(),
        name: name.into(),
        kind: SpanKind::Internal,
        started_at: began,
        ended_at: ended,
        attributes,
        failure: None,
    }
}

fn decision(call: &Call) -> Vec<(&'static str, Attribute)> {
    let Some(decision) = &call.decision else { return Vec::new() };
    let rule = decision.reasons.first().map(|reason| reason.rule.clone());
    let mut attributes: Vec<(&'static str, Attribute)> = vec![
        ("ringfence.decision.verdict", decision.verdict.name().into()),
        ("ringfence.decision.policy", decision.policy.to_string().into()),
    ];
    attributes.extend(rule.map(|rule| ("ringfence.decision.rule", rule.into())));
    attributes
}

fn sandbox(finished: &Finished) -> Vec<(&'static str, Attribute)> {
    let mut attributes = Vec::new();
    let isolation = finished.isolation.map(|isolation| match isolation {
        ringfence_types::Isolation::Cold => "cold",
        ringfence_types::Isolation::Zygote => "zygote",
        ringfence_types::Isolation::Warm => "warm",
    });
    attributes.extend(isolation.map(|name| ("ringfence.sandbox.isolation", name.into())));
    if let Some(usage) = finished.usage {
        let cpu = (usage.cpu_user + usage.cpu_system).as_secs_f64();
        attributes.push(("ringfence.sandbox.cpu_seconds", cpu.into()));
        let memory = usage.memory_peak.and_then(|peak| i64::try_from(peak.0).ok());
        attributes
            .extend(memory.map(|bytes| ("ringfence.sandbox.memory_peak_bytes", bytes.into())));
    }
    attributes
}
