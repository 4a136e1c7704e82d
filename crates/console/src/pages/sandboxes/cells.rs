//! Cells: code of an interpreter, and what came of it.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use ringfence_edge::{
    Problem,
    identity::{self, Caller, May},
    path::{Named, NamedWithin},
    reply,
};
use ringfence_engine::{
    Sandbox,
    data::CallQuery,
    sandbox::{Language, session::SessionId},
};
use ringfence_types::{Call, CallId};
use serde_json::{Value, json};

use super::{Waits, again, done, find, invalid, make, result};
use crate::{
    Shared,
    assets::FRAME_POLICY,
    form,
    html::{self, Html},
    pages::calls,
    shell,
};

/// Cells on the page.
const MAX_CELLS: usize = 10;

/// Bytes of a picture in a page.
const MAX_PICTURE: usize = 96 << 10;

/// Bytes of all pictures in a page.
const MAX_PICTURES: usize = 120 << 10;

/// One cell.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) call: String,
    pub(super) code: String,
    pub(super) state: Html,
    pub(super) output: Html,
    pub(super) has_output: bool,
    pub(super) error: String,
    /// Results as text.
    pub(super) texts: Vec<String>,
    /// Pictures as PNG in base64.
    pub(super) pictures: Vec<String>,
    /// Addresses of results as HTML, each for a frame of its own without rights.
    pub(super) pages: Vec<String>,
}

/// The newest cells of a sandbox, newest first.
pub(super) async fn cells(
    shared: &Shared,
    caller: &Caller,
    id: &SessionId,
) -> Result<Vec<Cell>, Problem> {
    let query = CallQuery {
        tenant: caller.principal().tenant.clone(),
        state: None,
        tool: Some("sandbox_execute".to_owned()),
        session: id.as_str().parse().ok(),
        parent: None,
        before: None,
        limit: MAX_CELLS,
    };
    let (calls, _) = calls::page_of(shared, caller.principal(), query).await?;
    let mut room = MAX_PICTURES;
    Ok(calls.iter().map(|call| cell(call, &mut room)).collect())
}

fn cell(call: &Call, room: &mut usize) -> Cell {
    let (value, error) = match result(call) {
        Ok(value) => (value, String::new()),
        Err(Waits::Failed(words)) => (Value::Null, words),
        Err(Waits::Held) => (Value::Null, String::new()),
    };
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    let printed = format!("{}{}", text("stdout"), text("stderr"));
    let raised = value["error"].as_object().map(|raised| {
        let part = |name: &str| raised.get(name).and_then(Value::as_str).unwrap_or_default();
        format!("{}: {}", part("name"), part("value"))
    });
    let results = value["results"].as_array().into_iter().flatten();
    let (mut texts, mut pictures, mut pages) = (Vec::new(), Vec::new(), Vec::new());
    let mut numbers = 0_usize..;
    for data in results.map(|result| &result["data"]) {
        let of = |kind: &str| data[kind].as_str().map(str::to_owned);
        let picture =
            of("image/png").filter(|png| is_base64(png) && png.len() <= MAX_PICTURE.min(*room));
        let page = of("text/html").and_then(|_| numbers.next());
        match (picture, page, of("text/plain")) {
            (Some(png), ..) => {
                *room -= png.len();
                pictures.push(png);
            }
            (None, Some(n), _) => {
                pages.push(format!("/console/calls/{}/pages/{n}", call.asked.id));
            }
            (None, None, Some(plain)) => texts.push(plain),
            (None, None, None) => {}
        }
    }
    Cell {
        call: call.asked.id.to_string(),
        code: call.args().to_value()["code"].as_str().unwrap_or_default().to_owned(),
        state: match value["status"].as_str() {
            Some("ok") => html::pill("good", "ok"),
            Some(status) => html::pill("bad", status),
            None => calls::state_of(call),
        },
        has_output: !printed.is_empty(),
        output: html::output(printed.as_bytes()),
        error: raised.unwrap_or(error),
        texts,
        pictures,
        pages,
    }
}

/// Sends a page that a program made, with no rights at all.
pub(crate) async fn made_page(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    NamedWithin(id, number): NamedWithin<CallId, usize>,
) -> Result<Response, Problem> {
    let call = shared.engine.get(caller.principal(), id).await?.ok_or_else(Problem::not_found)?;
    let value = result(&call).unwrap_or_default();
    let results = value["results"].as_array().into_iter().flatten();
    let mut pages = results.filter_map(|result| result["data"]["text/html"].as_str());
    let page = pages.nth(number).ok_or_else(Problem::not_found)?.to_owned();
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    let mut response = reply::of(StatusCode::OK, kind, page.into());
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, FRAME_POLICY);
    Ok(response)
}

/// A picture comes from a program: what is not base64 could leave its attribute.
fn is_base64(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'\n'))
}

/// Executes a cell, in an interpreter that keeps what earlier cells defined.
pub(crate) async fn execute(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<SessionId>,
    request: Request,
) -> Result<Response, Problem> {
    let mut fields = form::read(&shared.edge, &caller, request).await?;
    let mut text = |name| fields.all(name).pop().unwrap_or_default();
    let (language, code) = (text("language"), text("code").replace("\r\n", "\n"));
    let sandbox = find(&shared, &caller, &id)?;
    let interpreter = match interpreter(&shared, &caller, &sandbox, &id, &language).await? {
        Ok(number) => number,
        Err(words) => return again(&shared, &caller, &id, words).await,
    };
    let args = json!({"sandbox": id.as_str(), "interpreter": interpreter, "code": code});
    let call = done(make(&shared, &caller, Some(&id), "sandbox_execute", &args).await?).await?;
    match result(&call) {
        Ok(_) | Err(Waits::Held) => {
            Ok(shell::redirect(&format!("/console/sandboxes/{}#cells", id.as_str())))
        }
        Err(Waits::Failed(words)) => again(&shared, &caller, &id, words).await,
    }
}

/// Number of the sandbox's interpreter of a language, which is started if there is none.
async fn interpreter(
    shared: &Shared,
    caller: &Caller,
    sandbox: &Sandbox,
    id: &SessionId,
    language: &str,
) -> Result<Result<u32, String>, Problem> {
    let wanted = match language {
        "python" => Language::Python,
        "javascript" => Language::Javascript,
        _ => return Err(invalid("language", &"must be python or javascript")),
    };
    let mut known = sandbox.interpreters().into_iter();
    if let Some((number, _)) = known.find(|(_, interpreter)| interpreter.language() == wanted) {
        return Ok(Ok(number));
    }
    let args = json!({"sandbox": id.as_str(), "language": language});
    let call = done(make(shared, caller, Some(id), "sandbox_interpreter", &args).await?).await?;
    Ok(match result(&call) {
        Ok(value) => {
            let number =
                value["interpreter"].as_u64().and_then(|number| u32::try_from(number).ok());
            number.ok_or_else(|| "the interpreter has no number".to_owned())
        }
        Err(Waits::Failed(words)) => Err(words),
        Err(Waits::Held) => Err("Policy holds the start of the interpreter.".to_owned()),
    })
}
