//! Making a call.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use ringfence_edge::{
    Problem, body,
    fields::Fields,
    identity::{self, Caller, May},
    problem_codes, reply, setup_failure,
};
use ringfence_engine::{CallRequest, GIVEN, GIVEN_FIELDS, Refused, Ticket};
use ringfence_types::{Call, Json, PersonaId, SessionId, ToolName};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::{routes::tools, shared::Shared, views::call::CallView};

/// Request for a call.
#[derive(ToSchema)]
#[schema(as = CallRequest)]
#[expect(dead_code, reason = "it documents what `read` reads field by field")]
pub(crate) struct CallBody {
    /// Name of the tool.
    tool: String,
    /// Version of the tool; the newest by default.
    version: Option<String>,
    /// Arguments.
    #[schema(value_type = Object)]
    args: Json,
    /// Seconds to wait for the end; 0 answers at once.
    #[schema(default = 30.0, minimum = 0.0)]
    wait: Option<f64>,
    /// Session: 1 to 128 printable ASCII characters without spaces.
    session_id: Option<String>,
    /// Persona that the call is made for: 1 to 128 printable ASCII characters without spaces.
    persona_id: Option<String>,
    /// Your own data; the server does not act on it.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Json>,
    /// Whether it must run even if the result of an equal call is remembered.
    #[schema(default = false)]
    fresh: Option<bool>,
    /// Files in the workspace of its program by path: a text, `{"base64": …}`, or `{"artifact": …}` with a
    /// digest or an id. A skill finds them in `input-files`.
    #[schema(value_type = Option<Object>)]
    files: Option<Json>,
    /// Standard input of its program, in the form of a file.
    #[schema(value_type = Option<Object>)]
    stdin: Option<Json>,
    /// Variables of the environment; only for tools that run code of the caller.
    #[schema(value_type = Option<Object>)]
    env: Option<Json>,
    /// Limits below those of the tool: `wall_secs`, `memory_bytes`, `cpu_millis`, `processes`.
    #[schema(value_type = Option<Object>)]
    limits: Option<Json>,
    /// Patterns of the files that are stored as artifacts when it ends, in place of those of the tool.
    outputs: Option<Vec<String>>,
}

/// Makes a call and waits for its end.
///
/// A call that has ended is answered with 200, whatever its end: see `state` and `error`. A running
/// or held call is answered with 202 and its location.
#[utoipa::path(
    post, path = "/v1/calls", tag = "calls", request_body = CallBody,
    params(("Idempotency-Key" = Option<String>, Header,
        description = "Equal keys mean the same request, done once within a day. A quoted string of 1 to 255 printable ASCII characters; quotes may be left out.")),
    responses(
        (status = 200, description = "The call has ended", body = CallView<'static>),
        (status = 202, description = "The call is running or held", body = CallView<'static>),
        (status = 404, description = "Tool or version not found"),
        (status = 409, description = "The call with this idempotency key has not ended, or the tool is not active"),
        (status = 410, description = "The records of the call with this idempotency key were erased"),
        (status = 422, description = "Invalid body, arguments or idempotency key"),
    )
)]
pub(crate) async fn create(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    request: Request,
) -> Result<Response, Problem> {
    let idempotency_key = idempotency_key(request.headers())?;
    let body = body::json(&shared.edge, request).await?;
    let (mut call, wait) = read(&shared, &body)?;
    call.idempotency_key = idempotency_key;
    call.trace = Some(caller.trace().clone());
    let tool = call.tool.clone();
    let mut ticket = shared.engine.call(caller.principal(), call).await.map_err(|error| {
        let problem = refusal(&shared, &caller, &error).with("tool", &tool);
        shared.engine.count_refusal(tool.as_str(), problem.code().code);
        problem
    })?;
    let call = ticket.wait(wait).await.ok_or_else(|| unrecorded(&shared, &ticket))?;
    match setup_failure(&call) {
        Some(problem) => Err(problem),
        None => Ok(answer(&call, ticket.is_replayed())),
    }
}

/// The problem of a refused call; for an unknown tool with the nearest name.
pub(crate) fn refusal(shared: &Shared, caller: &Caller, error: &Refused) -> Problem {
    match error {
        Refused::UnknownTool { name } => tools::not_found(&shared.engine.tools(), caller, name),
        other => Problem::from(other),
    }
}

/// The problem of a call that could not be recorded. It may have run: see the detail.
pub(crate) fn unrecorded(shared: &Shared, ticket: &Ticket) -> Problem {
    if let Some(refused) = ticket.refused() {
        return Problem::from(&refused);
    }
    if let Err(error) = shared.engine.check_store_files() {
        return Problem::from(&error);
    }
    let detail = match shared.engine.met_full_disk() {
        true => ringfence_edge::DISK_FULL,
        false => "the call could not be recorded; it may have run",
    };
    Problem::new(&problem_codes::STORE_UNAVAILABLE, detail).retry_after(Duration::from_secs(1))
}

fn read(shared: &Shared, body: &Json) -> Result<(CallRequest, Duration), Problem> {
    let mut fields = Fields::of(body)?;
    let tool: Option<ToolName> = fields.required("tool");
    let version: Option<String> = fields.optional("version");
    if version.as_ref().is_some_and(|version| version.len() > 64) {
        fields.fault("version", "must be at most 64 characters");
    }
    let args = fields.required_object("args");
    let args = with_given(&mut fields, args);
    let wait = wait(shared, &mut fields);
    let session: Option<SessionId> = fields.optional("session_id");
    let persona: Option<PersonaId> = fields.optional("persona_id");
    let metadata = fields.optional_object("metadata");
    let fresh = fields.optional::<bool>("fresh").unwrap_or_default();
    fields.finish(tool.zip(args)).map(|(tool, args)| {
        let detached = wait.is_zero();
        let metadata = metadata.unwrap_or_else(Json::empty_object);
        let call = CallRequest::new(tool, args);
        (CallRequest { version, session, persona, metadata, detached, fresh, ..call }, wait)
    })
}

/// The arguments with what the call is given beside them, which is one of them: policy, approvals and digests
/// are about the arguments.
fn with_given(fields: &mut Fields<'_>, args: Option<Json>) -> Option<Json> {
    let read = |name: &'static str| Some((name, fields.optional::<&RawValue>(name)?));
    let given: BTreeMap<_, _> = GIVEN_FIELDS.into_iter().filter_map(read).collect();
    let args = args?;
    if given.is_empty() {
        return Some(args);
    }
    let mut all: BTreeMap<String, &RawValue> = args.read().unwrap_or_default();
    if all.contains_key(GIVEN) {
        fields.fault("args", format!("has `{GIVEN}`, which stands for fields of the request"));
    }
    let given = serde_json::value::to_raw_value(&given).ok()?;
    all.insert(GIVEN.to_owned(), &given);
    // One level deeper than it was, so it is checked again.
    let whole = Json::of(&all);
    if whole.is_err() {
        fields.fault("args", "the request is nested too deep");
    }
    whole.ok()
}

fn wait(shared: &Shared, fields: &mut Fields<'_>) -> Duration {
    let config = shared.edge.config();
    let Some(secs) = fields.optional::<f64>("wait") else { return config.default_wait };
    let most = config.max_wait.as_secs_f64();
    if !(0.0..=most).contains(&secs) {
        fields.fault("wait", format!("must be from 0 to {most} seconds"));
        return Duration::ZERO;
    }
    Duration::from_secs_f64(secs)
}

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const TRUE: HeaderValue = HeaderValue::from_static("true");

/// The idempotency key: a string of structured fields (RFC 9651), or the same without its quotes.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(&IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let read = value.to_str().ok().and_then(|text| unquoted(text.trim()));
    match read {
        Some(key) if values.next().is_none() => Ok(Some(key)),
        _ => {
            let detail = "`Idempotency-Key` must be one string of 1 to 255 printable ASCII \
                          characters, such as \"8e03978e\"";
            Err(Problem::new(&problem_codes::IDEMPOTENCY_KEY_INVALID, detail))
        }
    }
}

fn unquoted(text: &str) -> Option<String> {
    let key = match text.strip_prefix('"') {
        None if text.contains(['"', '\\']) => return None,
        None => text.to_owned(),
        Some(rest) => unescaped(rest.strip_suffix('"')?)?,
    };
    let fits = (1..=255).contains(&key.len()) && key.bytes().all(|b| (b' '..=b'~').contains(&b));
    fits.then_some(key)
}

/// The string without escapes: a backslash before a quote or a backslash, and nothing else.
fn unescaped(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => return None,
            '\\' => out.push(chars.next().filter(|c| matches!(c, '"' | '\\'))?),
            c => out.push(c),
        }
    }
    Some(out)
}

/// Response: 200 for a call that has ended, 202 for any other.
fn answer(call: &Call, is_replayed: bool) -> Response {
    let is_final = call.state.is_final();
    let status = if is_final { StatusCode::OK } else { StatusCode::ACCEPTED };
    let mut response = reply::json(status, &CallView::of(call));
    let headers = response.headers_mut();
    if !is_final {
        headers.extend(pending(call));
    }
    if is_replayed {
        headers.insert(IDEMPOTENCY_REPLAYED, TRUE);
    }
    response
}

/// Location and retry delay of a call that has not ended.
fn pending(call: &Call) -> [(HeaderName, HeaderValue); 2] {
    let place = format!("/v1/calls/{}", call.asked.id);
    let place = HeaderValue::try_from(place).expect("an id is printable ASCII");
    // People take longer than programs to end a hold.
    let held = matches!(call.state, ringfence_types::State::Held { .. });
    let secs: u64 = if held { 30 } else { 1 };
    [(header::LOCATION, place), (header::RETRY_AFTER, secs.into())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idempotency_key_may_be_quoted_or_not() {
        let cases = [
            (r#""abc""#, Some("abc")),
            ("abc", Some("abc")),
            (r#""a\"b\\c""#, Some(r#"a"b\c"#)),
            ("a b", Some("a b")),
            (r#""""#, None),
            ("", None),
            (r#""abc"#, None),
            (r#"abc""#, None),
            (r#"a"b"#, None),
            (r#""a\n""#, None),
            (r#""a\"#, None),
        ];
        for (text, expected) in cases {
            assert_eq!(unquoted(text).as_deref(), expected, "{text}");
        }
        assert_eq!(unquoted(&"x".repeat(256)), None);
    }
}
