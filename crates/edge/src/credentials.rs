//! The key that a request carries: from a header to an identity.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};
use ringfence_access::{Access, KnownKey, Secret, Unauthenticated};

use crate::{
    Problem,
    problem_codes::{self, ProblemCode},
};

/// The key that a request carries, if it may be used now.
pub(crate) async fn authenticate(
    access: &Access,
    headers: &HeaderMap,
) -> Result<Arc<KnownKey>, Problem> {
    access.authenticate(secret(headers)?).await.map_err(refused)
}

/// Cookie that holds the token of a browser's session.
pub const SESSION_COOKIE: &str = "ringfence_session";

/// Key and token of the session that a request carries in its cookie; none without a session that is
/// open. Whether a session is required is for the handler to say, which answers people with pages.
pub(crate) async fn session(
    access: &Access,
    headers: &HeaderMap,
) -> Result<Option<(Arc<KnownKey>, String)>, Problem> {
    let Some(token) = session_token(headers) else { return Ok(None) };
    match access.authenticate_session(token.as_bytes()).await {
        Ok(known) => Ok(Some((known, token.to_owned()))),
        Err(error @ (Unauthenticated::Store(_) | Unauthenticated::Random(_))) => {
            Err(refused(error))
        }
        Err(_) => Ok(None),
    }
}

/// Value of the session cookie. Two of them are none: one may come from another program of this host.
fn session_token(headers: &HeaderMap) -> Option<&str> {
    let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.split_once('='));
    let mut tokens = pairs.filter(|(name, _)| name.trim() == SESSION_COOKIE);
    let (_, token) = tokens.next()?;
    tokens.next().is_none().then(|| token.trim())
}

/// The secret of a request. Two that differ are refused: which one was meant?
fn secret(headers: &HeaderMap) -> Result<&[u8], Problem> {
    let mut found = headers
        .get_all(header::AUTHORIZATION)
        .iter()
        .map(bearer)
        .chain(headers.get_all("x-api-key").iter().map(|value| Some(value.as_bytes())));
    let missing = "send `Authorization: Bearer <key>` or `X-API-Key: <key>`";
    let first = found.next().ok_or_else(|| unauthorised(&problem_codes::KEY_MISSING, missing))?;
    if found.any(|other| other != first) {
        return Err(unauthorised(
            &problem_codes::KEY_INVALID,
            "the request carries two different keys",
        ));
    }
    first
        .filter(|secret| Secret::is_well_formed(secret))
        .ok_or_else(|| refused(Unauthenticated::Malformed))
}

fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, secret) = value.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| secret.trim_ascii())
}

fn refused(error: Unauthenticated) -> Problem {
    let code = match error {
        Unauthenticated::Malformed | Unauthenticated::Unknown => &problem_codes::KEY_INVALID,
        Unauthenticated::Revoked => &problem_codes::KEY_REVOKED,
        Unauthenticated::Expired(_) => &problem_codes::KEY_EXPIRED,
        Unauthenticated::Store(error) => return error.into(),
        Unauthenticated::Random(_) => {
            return Problem::new(&problem_codes::INTERNAL, error.to_string());
        }
    };
    unauthorised(code, &error.to_string())
}

fn unauthorised(code: &'static ProblemCode, detail: &str) -> Problem {
    let challenge = if std::ptr::eq(code, &problem_codes::KEY_MISSING) {
        HeaderValue::from_static("Bearer realm=\"ringfence\"")
    } else {
        HeaderValue::from_static("Bearer realm=\"ringfence\", error=\"invalid_token\"")
    };
    Problem::new(code, detail).header(header::WWW_AUTHENTICATE, challenge)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "rf_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    fn check(pairs: &[(&'static str, &str)], expected: Result<&str, &str>) {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let found = secret(&headers).map_err(|problem| problem.code().code);
        assert_eq!(found, expected.map(str::as_bytes), "{pairs:?}");
    }

    #[test]
    fn a_secret_is_taken_from_either_header() {
        let bearer = format!("bEaReR {SECRET}");
        let other = SECRET.replace('A', "B");
        check(&[("authorization", &bearer)], Ok(SECRET));
        check(&[("x-api-key", SECRET)], Ok(SECRET));
        check(&[("x-api-key", SECRET), ("authorization", &bearer)], Ok(SECRET));
        check(&[("x-api-key", &other), ("authorization", &bearer)], Err("key_invalid"));
        check(&[("authorization", &bearer), ("authorization", "Basic x")], Err("key_invalid"));
    }

    #[test]
    fn a_session_is_taken_from_exactly_one_cookie() {
        let found = |cookies: &[&str]| {
            let mut headers = HeaderMap::new();
            for cookie in cookies {
                headers.append(header::COOKIE, HeaderValue::from_str(cookie).unwrap());
            }
            session_token(&headers).map(str::to_owned)
        };
        assert_eq!(found(&["a=1; ringfence_session=t; b=2"]), Some("t".to_owned()));
        assert_eq!(found(&["a=1", "ringfence_session=t"]), Some("t".to_owned()));
        assert_eq!(found(&["ringfence_session=t; ringfence_session=u"]), None);
        assert_eq!(found(&["not_ringfence_session=t", "x"]), None);
    }

    #[test]
    fn what_is_no_secret_never_reaches_the_store() {
        check(&[], Err("key_missing"));
        for bad in ["", "Bearer", "Bearer ", "Basic abc", SECRET, "Bearer rf_short"] {
            check(&[("authorization", bad)], Err("key_invalid"));
        }
    }
}
