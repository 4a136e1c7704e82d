//! Secrets that are added to requests on their way out.
//!
//! They are added to encrypted requests only, and masked in everything that the server sends back.

use std::fmt;

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use reqwest::Url;
use ringfence_types::SecretText;

use crate::{
    error::Error,
    mask::Mask,
    target::{Scheme, Target},
};

/// Source of the secrets of one call or sandbox. It is asked for every request, so that a changed or
/// removed secret takes effect at once.
#[async_trait]
pub trait SecretSource: fmt::Debug + Send + Sync + 'static {
    /// Whether requests to this host may get a secret.
    fn is_for(&self, url: &Target) -> bool;

    /// Secrets to be added to a request. An error refuses the request.
    async fn secrets(&self, method: &Method, url: &Target) -> Result<Vec<Injection>, String>;
}

/// Source without secrets.
#[derive(Debug)]
pub struct NoSecrets;

#[async_trait]
impl SecretSource for NoSecrets {
    fn is_for(&self, _url: &Target) -> bool {
        false
    }

    async fn secrets(&self, _method: &Method, _url: &Target) -> Result<Vec<Injection>, String> {
        Ok(Vec::new())
    }
}

/// One secret, and where it is put.
#[derive(Clone)]
pub struct Injection {
    /// Name of the secret, for the receipt.
    pub(crate) name: String,
    place: Place,
    value: SecretText,
    sent: SecretText,
}

/// Place of a secret in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Header, whose value is replaced.
    Header(HeaderName),
    /// Parameter of the query, whose value is replaced.
    Query(String),
}

impl fmt::Debug for Injection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Injection({}, {:?}, ***)", self.name, self.place)
    }
}

impl Injection {
    /// Secret `name` with `value`, which is part of the text that is `sent`.
    pub fn new(name: &str, place: Place, value: SecretText, sent: String) -> Self {
        Self { name: name.to_owned(), place, value, sent: SecretText::new(sent) }
    }
}

/// Secrets of `source` for a request of the server itself, which must be encrypted to get one.
pub(crate) async fn of_request(
    source: Option<&dyn SecretSource>,
    method: &Method,
    url: &Target,
) -> Result<Vec<Injection>, Error> {
    let Some(source) = source else { return Ok(Vec::new()) };
    let refused = |problem| Error::SecretRefused { host: url.host().clone(), problem };
    let secrets = source.secrets(method, url).await.map_err(refused)?;
    match url.scheme() {
        Scheme::Http if !secrets.is_empty() => {
            Err(refused("a secret is not sent in plain text: use https".to_owned()))
        }
        _ => Ok(secrets),
    }
}

/// Mask of the values of these secrets.
pub(crate) fn mask(secrets: &[Injection]) -> Mask {
    Mask::new(secrets.iter().map(|secret| secret.value.reveal()))
}

/// Adds secrets to the headers of a request, and asks for an answer that can be masked: one that is
/// not compressed. Fails with the name of a secret that is not valid in a header.
pub(crate) fn add_headers(secrets: &[Injection], headers: &mut HeaderMap) -> Result<(), String> {
    if secrets.is_empty() {
        return Ok(());
    }
    for secret in secrets {
        if let Place::Header(name) = &secret.place {
            let invalid = |_| format!("secret `{}` is not valid in a header", secret.name);
            let mut value = HeaderValue::from_str(secret.sent.reveal()).map_err(invalid)?;
            value.set_sensitive(true);
            headers.insert(name.clone(), value);
        }
    }
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    // A part of a secret could not be recognised.
    headers.remove(header::RANGE);
    Ok(())
}

/// URL of a request with secrets. It must not be shown.
pub(crate) fn full_url(url: &Target, secrets: &[Injection]) -> Url {
    let mut url = url.url().clone();
    for secret in secrets {
        if let Place::Query(name) = &secret.place {
            let kept: Vec<(String, String)> = url
                .query_pairs()
                .filter(|(key, _)| key != name.as_str())
                .map(|(key, value)| (key.into_owned(), value.into_owned()))
                .collect();
            let added = (name.clone(), secret.sent.reveal().to_owned());
            url.query_pairs_mut().clear().extend_pairs(kept.into_iter().chain([added]));
        }
    }
    url
}

/// Path and query of a request with secrets.
pub(crate) fn path_and_query(url: &Target, secrets: &[Injection]) -> String {
    let url = full_url(url, secrets);
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    format!("{}{query}", url.path())
}

/// Whether an answer to a request with secrets cannot be masked, because it is encoded.
pub(crate) fn is_opaque(headers: &HeaderMap) -> bool {
    let encodings = headers.get_all(header::CONTENT_ENCODING).iter();
    let mut others = encodings.filter(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"));
    others.next().is_some()
}
