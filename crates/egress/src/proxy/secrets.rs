//! Secrets that a proxy adds to requests.

use std::fmt;

use async_trait::async_trait;
use http::HeaderName;

use crate::target::Target;

/// Source of the secrets of one sandbox. It is asked for every request, so that a changed or
/// removed secret takes effect at once.
#[async_trait]
pub trait SecretSource: fmt::Debug + Send + Sync + 'static {
    /// Secrets to be added to a request to `url`. An error refuses the request.
    async fn secrets(&self, url: &Target) -> Result<Vec<Injection>, String>;
}

/// Source without secrets.
#[derive(Debug)]
pub struct NoSecrets;

#[async_trait]
impl SecretSource for NoSecrets {
    async fn secrets(&self, _url: &Target) -> Result<Vec<Injection>, String> {
        Ok(Vec::new())
    }
}

/// One secret, and where it is put.
#[derive(Clone)]
pub struct Injection {
    /// Name of the secret, for the receipt.
    pub name: String,
    /// Where it is put.
    pub place: Place,
    /// Value that is sent.
    pub value: String,
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
