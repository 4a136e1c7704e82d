//! Request to run a tool, as its schema defines it.

use std::collections::BTreeMap;

use ringfence_engine::{CallRequest, Engine};
use ringfence_types::{Json, PersonaId, SessionId, TenantId, ToolName, TraceContext};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    envelope::{self, Opened},
    schema,
};

/// Characters of an `event_id`.
const MAX_EVENT_ID_CHARS: usize = 255;

/// A request that fits the schema.
#[derive(Debug)]
pub(crate) struct ToolRequest {
    pub(crate) event_id: String,
    pub(crate) session_id: String,
    pub(crate) persona_id: Option<String>,
    pub(crate) tool_name: String,
    pub(crate) args: Json,
    /// With `request_id`, which ties a result to its request.
    pub(crate) metadata: Json,
    /// Tenant that the client named.
    pub(crate) tenant: Option<String>,
    pub(crate) trace: Option<TraceContext>,
}

/// The document of a message.
#[derive(Deserialize)]
struct Document<'a> {
    event_id: String,
    session_id: String,
    persona_id: Option<String>,
    tool_name: String,
    #[serde(borrow)]
    args: &'a RawValue,
    #[serde(borrow)]
    metadata: BTreeMap<String, &'a RawValue>,
    #[serde(default)]
    trace_context: BTreeMap<String, String>,
}

/// Names that are not what the schema of names allows. The request can be answered all the same.
#[derive(Debug)]
pub(crate) struct InvalidNames(pub(crate) Vec<String>);

impl ToolRequest {
    /// Reads the document of a message; all that is wrong with it otherwise.
    pub(crate) fn read(opened: &Opened) -> Result<Self, String> {
        let problems = schema::problems("tool_request.json", &opened.document.to_value());
        if !problems.is_empty() {
            return Err(format!("not a tool request: {}", problems.join("; ")));
        }
        let document: Document<'_> =
            opened.document.read().map_err(|error| format!("not a tool request: {error}"))?;
        let length = document.event_id.chars().count();
        if !(1..=MAX_EVENT_ID_CHARS).contains(&length) {
            return Err(format!(
                "not a tool request: /event_id: must have 1 to {MAX_EVENT_ID_CHARS} characters"
            ));
        }
        let part = |raw| opened.document.part(raw).ok_or("a part of JSON is JSON");
        let text = |name: &str| {
            let raw = document.metadata.get(name)?;
            serde_json::from_str::<String>(raw.get()).ok()
        };
        let carrier = |name: &str| document.trace_context.get(name).map(String::as_str);
        let trace = envelope::trace(carrier("traceparent"), carrier("tracestate"));
        Ok(Self {
            tenant: text("tenant").filter(|tenant| !tenant.is_empty()),
            metadata: with_request_id(&document)?,
            args: part(document.args)?,
            event_id: document.event_id,
            session_id: document.session_id,
            persona_id: document.persona_id,
            tool_name: document.tool_name,
            trace: trace.or_else(|| opened.trace.clone()),
        })
    }

    /// Request to the engine.
    pub(crate) fn call(&self, engine: &Engine) -> Result<CallRequest, InvalidNames> {
        let mut problems = Vec::new();
        let tool: Option<ToolName> = parsed(&self.tool_name, &mut problems);
        let session = match self.session_id.as_str() {
            "" => Some(None),
            text => parsed::<SessionId>(text, &mut problems).map(Some),
        };
        let persona = match self.persona_id.as_deref() {
            None | Some("") => Some(None),
            Some(text) => parsed::<PersonaId>(text, &mut problems).map(Some),
        };
        let Some(((tool, session), persona)) = tool.zip(session).zip(persona) else {
            return Err(InvalidNames(problems));
        };
        let mut request = CallRequest::new(tool, self.args(engine));
        request.session = session;
        request.persona = persona;
        request.metadata = self.metadata.clone();
        request.trace = self.trace.clone();
        // The message is acknowledged when the call is on record.
        request.detached = true;
        Ok(request)
    }

    /// Tenant that the client named, if it is a name of a tenant.
    pub(crate) fn tenant_id(&self) -> Option<Result<TenantId, String>> {
        let tenant = self.tenant.as_deref()?;
        Some(tenant.parse().map_err(|error: ringfence_types::InvalidId| error.to_string()))
    }

    /// Arguments, with `session_id` where the tool takes one and the client left it out: the executor
    /// of SomaAgent 01 puts it there, but for every tool.
    fn args(&self, engine: &Engine) -> Json {
        let takes_session = engine.tools().get(&self.tool_name, None).is_some_and(|entry| {
            let schema = entry.tool.input_schema.to_value();
            schema["properties"].get("session_id").is_some()
        });
        if !takes_session || self.session_id.is_empty() {
            return self.args.clone();
        }
        let session = serde_json::value::to_raw_value(&self.session_id);
        let session = session.expect("text can be written");
        let Ok(mut fields) = self.args.read::<BTreeMap<String, &RawValue>>() else {
            return self.args.clone();
        };
        fields.entry("session_id".to_owned()).or_insert(&session);
        Json::of(&fields).unwrap_or_else(|_| self.args.clone())
    }
}

/// The client's metadata; `request_id` is filled from `event_id`.
fn with_request_id(document: &Document<'_>) -> Result<Json, String> {
    let id = serde_json::value::to_raw_value(&document.event_id).expect("text can be written");
    let mut metadata = document.metadata.clone();
    metadata.entry("request_id".to_owned()).or_insert(&id);
    Json::of(&metadata).map_err(|error| format!("not a tool request: {error}"))
}

fn parsed<T: std::str::FromStr<Err = ringfence_types::InvalidId>>(
    text: &str,
    problems: &mut Vec<String>,
) -> Option<T> {
    text.parse().map_err(|error: ringfence_types::InvalidId| problems.push(error.to_string())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ToolRequest, String> {
        let document = Json::parse(text.as_bytes()).unwrap();
        ToolRequest::read(&Opened { document, trace: None })
    }

    const GOOD: &str = r#"{"event_id":"e","session_id":"s","persona_id":null,"tool_name":"echo",
        "args":{"text":12345678901234567890.0},"metadata":{"tenant":"public"},
        "trace_context":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}"#;

    #[test]
    fn a_request_gets_the_id_that_ties_its_result_to_it() {
        let request = read(GOOD).unwrap();
        assert_eq!(request.metadata.as_str(), r#"{"request_id":"e","tenant":"public"}"#);
        assert_eq!(request.args.as_str(), r#"{"text":12345678901234567890.0}"#);
        assert_eq!(request.tenant.as_deref(), Some("public"));
        assert!(request.trace.is_some());
        let own = read(&GOOD.replace(r#""tenant":"#, r#""request_id":7,"tenant":"#)).unwrap();
        assert_eq!(own.metadata.as_str(), r#"{"request_id":7,"tenant":"public"}"#);
    }

    #[test]
    fn what_does_not_fit_the_schema_is_named() {
        for (from, to, problem) in [
            (r#""event_id":"e""#, r#""event_id":"""#, "/event_id"),
            (r#""event_id":"e""#, r#""event_id":1"#, "/event_id"),
            (r#""session_id":"s","#, "", "session_id"),
            (r#""args":{"#, r#""more":1,"args":{"#, "more"),
            (r#""metadata":{"tenant":"public"}"#, r#""metadata":[]"#, "/metadata"),
        ] {
            let found = read(&GOOD.replace(from, to)).unwrap_err();
            assert!(found.contains(problem), "no {problem} in {found}");
        }
    }
}
