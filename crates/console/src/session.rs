//! Signing in and out.

use std::sync::Arc;

use askama::Template;
use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, Uri, header};
use ringfence_access::{NewSession, SESSION_LIFETIME, Unauthenticated};
use ringfence_edge::{
    Problem, SESSION_COOKIE,
    identity::{Caller, OptionalCaller},
    query::Query,
};

use crate::{
    Shared,
    assets::{REFERENCES, References},
    form as forms, shell,
};

#[derive(Debug, Template)]
#[template(path = "login.html")]
struct LoginPage<'a> {
    assets: &'static References,
    next: &'a str,
    error: Option<String>,
}

/// The page between a login link and the console. It leads on by itself: a cookie that is set in answer
/// to a link on another site is first sent by a request from our own page.
#[derive(Debug, Template)]
#[template(path = "welcome.html")]
struct WelcomePage<'a> {
    assets: &'static References,
    next: &'a str,
}

/// Shows the login form, or signs in by a login link.
pub(crate) async fn form(
    State(shared): State<Arc<Shared>>,
    OptionalCaller(caller): OptionalCaller,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let next = query.optional::<String>("next");
    let link = query.optional::<String>("link");
    let next = own_path(next.as_deref());
    if let Some(link) = link {
        return match shared.edge.access().sign_in_by_link(link.as_bytes()).await {
            Ok(session) => Ok(welcome(&shared, &session, next)),
            Err(Unauthenticated::Store(error)) => Err(error.into()),
            Err(_) if caller.is_some() => Ok(shell::redirect(next)),
            Err(_) => {
                let error = "This link was used before or is older than 15 minutes. Sign in with a \
                             key, or restart the server for a new link.";
                Ok(login(StatusCode::UNAUTHORIZED, next, Some(error.to_owned())))
            }
        };
    }
    match caller {
        Some(_) => Ok(shell::redirect(next)),
        None => Ok(login(StatusCode::OK, next, None)),
    }
}

/// Signs in with the secret of a key.
pub(crate) async fn sign_in(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Response, Problem> {
    let mut fields = forms::read_open(&shared.edge, request).await?;
    let key = fields.optional::<String>("key").unwrap_or_default();
    let next = fields.optional::<String>("next");
    let next = own_path(next.as_deref());
    match shared.edge.access().sign_in(key.trim().as_bytes()).await {
        Ok(session) => {
            let mut response = shell::redirect(next);
            set_cookie(&shared, &mut response, session.token.reveal(), SESSION_LIFETIME.as_secs());
            Ok(response)
        }
        Err(Unauthenticated::Store(error)) => Err(error.into()),
        Err(error) => {
            let error = match error {
                Unauthenticated::Malformed => {
                    "A key begins with rf_ and has 46 characters.".to_owned()
                }
                Unauthenticated::Unknown => "No key has this secret.".to_owned(),
                other => format!("Not signed in: {other}."),
            };
            Ok(login(StatusCode::UNAUTHORIZED, next, Some(error)))
        }
    }
}

/// Signs out.
pub(crate) async fn sign_out(
    State(shared): State<Arc<Shared>>,
    OptionalCaller(caller): OptionalCaller,
    request: Request,
) -> Result<Response, Problem> {
    let Some(caller) = caller else { return Ok(shell::redirect("/console/login")) };
    forms::read(&shared.edge, &caller, request).await?;
    close(&shared, &caller);
    let mut response = shell::redirect("/console/login");
    set_cookie(&shared, &mut response, "", 0);
    Ok(response)
}

fn close(shared: &Shared, caller: &Caller) {
    if let Some(session) = caller.session() {
        shared.edge.access().sign_out(session.as_bytes());
    }
}

fn login(status: StatusCode, next: &str, error: Option<String>) -> Response {
    shell::render(status, &LoginPage { assets: &REFERENCES, next, error })
}

fn welcome(shared: &Shared, session: &NewSession, next: &str) -> Response {
    let mut response = shell::render(StatusCode::OK, &WelcomePage { assets: &REFERENCES, next });
    set_cookie(shared, &mut response, session.token.reveal(), SESSION_LIFETIME.as_secs());
    response
}

fn set_cookie(shared: &Shared, response: &mut Response, token: &str, secs: u64) {
    let secure = if shared.config.has_tls { "; Secure" } else { "" };
    let cookie = format!(
        "{SESSION_COOKIE}={token}; Path={}; Max-Age={secs}; HttpOnly; SameSite=Strict{secure}",
        crate::CONSOLE_PATH
    );
    let cookie = HeaderValue::try_from(cookie).expect("a token is printable ASCII");
    response.headers_mut().insert(header::SET_COOKIE, cookie);
}

/// A path of the console to go on to; a link cannot lead elsewhere.
fn own_path(next: Option<&str>) -> &str {
    let is_own = |path: &&str| {
        (*path == "/console" || path.starts_with("/console/") || path.starts_with("/console?"))
            && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
            && !path.starts_with("/console/login")
    };
    next.filter(is_own).unwrap_or("/console")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_to_pages_of_the_console_only() {
        for (next, expected) in [
            (Some("/console/holds?tool=x"), "/console/holds?tool=x"),
            (Some("/console"), "/console"),
            (Some("//evil.example"), "/console"),
            (Some("/console.evil"), "/console"),
            (Some("https://evil.example/console"), "/console"),
            (Some("/console/\r\nX: y"), "/console"),
            (Some("/console/login?link=x"), "/console"),
            (None, "/console"),
        ] {
            assert_eq!(own_path(next), expected, "{next:?}");
        }
    }
}
