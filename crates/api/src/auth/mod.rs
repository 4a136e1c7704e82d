//! Who is asking: from a header to a principal.
//!
//! Invariants:
//! - a secret is never kept, logged or compared: only its digest is looked up;
//! - a revoked or expired key is refused at once, whatever a cache says;
//! - nothing on this path writes to the store.

mod bucket;
mod cache;
mod caller;

use http::{HeaderMap, HeaderValue, header};
use ringfence_types::{Digest, Timestamp};

pub(crate) use self::{
    cache::{Cache, End, Known},
    caller::{Admin, Approve, Call, Caller, Context, May, Read, SeeHolds, scope_missing},
};
use crate::{
    keys::{SECRET_LENGTH, SECRET_PREFIX},
    kinds::{self, Kind},
    problem::Problem,
    refused,
    shared::Shared,
};

/// The key that a request carries, if it may be used now.
pub(crate) async fn authenticate(
    shared: &Shared,
    headers: &HeaderMap,
) -> Result<std::sync::Arc<Known>, Problem> {
    let secret = secret(headers)?;
    let digest = Digest::of(secret);
    let now = shared.engine.clock().now();
    let known = match shared.keys.get(digest, now) {
        Some(known) => known,
        None => look_up(shared, digest, now).await?,
    };
    check(&known, now)?;
    known.usage.used(now);
    Ok(known)
}

async fn look_up(
    shared: &Shared,
    digest: Digest,
    now: Timestamp,
) -> Result<std::sync::Arc<Known>, Problem> {
    let seen = shared.keys.generation();
    let key = shared.engine.store().key_by_secret(digest).await;
    let key = key.map_err(|error| refused::store(&error))?;
    let key = key.ok_or_else(|| unauthorised(&kinds::KEY_INVALID, "no key has this secret"))?;
    Ok(shared.keys.put(digest, key, now, seen))
}

fn check(known: &Known, now: Timestamp) -> Result<(), Problem> {
    if known.revoked {
        return Err(unauthorised(&kinds::KEY_REVOKED, "this key was revoked"));
    }
    match known.expires_at {
        Some(end) if end <= now => {
            Err(unauthorised(&kinds::KEY_EXPIRED, &format!("this key ended at {end}")))
        }
        _ => Ok(()),
    }
}

/// The secret of a request. Two that differ are refused: which one was meant?
fn secret(headers: &HeaderMap) -> Result<&[u8], Problem> {
    let mut found = headers
        .get_all(header::AUTHORIZATION)
        .iter()
        .map(bearer)
        .chain(headers.get_all("x-api-key").iter().map(|value| Some(value.as_bytes())));
    let missing = "send `Authorization: Bearer <key>` or `X-API-Key: <key>`";
    let first = found.next().ok_or_else(|| unauthorised(&kinds::KEY_MISSING, missing))?;
    if found.any(|other| other != first) {
        return Err(unauthorised(&kinds::KEY_INVALID, "the request carries two different keys"));
    }
    let secret = first.filter(|secret| is_secret(secret));
    secret.ok_or_else(|| unauthorised(&kinds::KEY_INVALID, "this is not a key of ours"))
}

fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, secret) = value.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| secret.trim_ascii())
}

fn is_secret(secret: &[u8]) -> bool {
    secret.len() == SECRET_LENGTH && secret.starts_with(SECRET_PREFIX.as_bytes())
}

fn unauthorised(kind: &'static Kind, detail: &str) -> Problem {
    let challenge = if std::ptr::eq(kind, &kinds::KEY_MISSING) {
        HeaderValue::from_static("Bearer realm=\"ringfence\"")
    } else {
        HeaderValue::from_static("Bearer realm=\"ringfence\", error=\"invalid_token\"")
    };
    Problem::new(kind, detail).header(header::WWW_AUTHENTICATE, challenge)
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
        let found = secret(&headers).map_err(|problem| problem.kind().code);
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
    fn what_is_no_secret_never_reaches_the_store() {
        check(&[], Err("key_missing"));
        for bad in ["", "Bearer", "Bearer ", "Basic abc", SECRET, "Bearer rf_short"] {
            check(&[("authorization", bad)], Err("key_invalid"));
        }
    }
}
