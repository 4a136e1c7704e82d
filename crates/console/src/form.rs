//! Forms that browsers send: fields, and the token that proves that the form is ours.

use axum::extract::Request;
use ringfence_access::Access;
use ringfence_edge::{Edge, Problem, body, identity::Caller, problem_codes, query::Query};
use subtle::ConstantTimeEq;

/// Bytes of a form: arguments of a call are in it, escaped.
const MAX_FORM: usize = 1 << 20;

/// The fields of a form that the session of this caller was given.
pub(crate) async fn read(edge: &Edge, caller: &Caller, request: Request) -> Result<Query, Problem> {
    let mut fields = read_open(edge, request).await?;
    let sent = fields.all("token").pop().unwrap_or_default();
    check_token(caller, sent.as_bytes())?;
    Ok(fields)
}

/// Bytes that a script of ours sends, with the token of the session's forms in a header.
pub(crate) async fn read_bytes(
    edge: &Edge,
    caller: &Caller,
    request: Request,
) -> Result<bytes::Bytes, Problem> {
    body::check_type(request.headers(), "application/octet-stream")?;
    let sent =
        request.headers().get("x-form-token").map_or(&b""[..], |sent| sent.as_bytes()).to_vec();
    check_token(caller, &sent)?;
    Ok(body::take(edge, request, edge.config().max_upload).await?.bytes.clone())
}

fn check_token(caller: &Caller, sent: &[u8]) -> Result<(), Problem> {
    let expected = token(caller);
    if expected.is_empty() || !bool::from(sent.ct_eq(expected.as_bytes())) {
        let detail = "the form is from another session: go back, reload the page and try again";
        return Err(Problem::new(&problem_codes::ORIGIN_FOREIGN, detail));
    }
    Ok(())
}

/// The fields of a form of a browser that has no session yet.
pub(crate) async fn read_open(edge: &Edge, request: Request) -> Result<Query, Problem> {
    body::check_type(request.headers(), "application/x-www-form-urlencoded")?;
    let taken = body::take(edge, request, MAX_FORM).await?;
    Ok(Query::of_text(&String::from_utf8_lossy(&taken.bytes)))
}

/// The token of all forms of a session.
pub(crate) fn token(caller: &Caller) -> String {
    caller.session().map(|session| Access::form_token(session.as_bytes())).unwrap_or_default()
}
