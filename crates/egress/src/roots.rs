//! Whose word we take for who a server is.

use std::sync::Once;

use reqwest::{Certificate, ClientBuilder};
use rustls::crypto::{CryptoProvider, ring};

use crate::error::SetupError;

/// The authorities that may vouch for a server. There is no variant that trusts everyone.
#[derive(Debug, Clone, Default)]
pub enum Roots {
    /// Those of the operating system, read for each connection, so that an update takes effect.
    #[default]
    System,
    /// These alone.
    Only(Vec<Certificate>),
}

impl Roots {
    /// Trusts the authorities of a PEM bundle alone. A bundle without any is an error.
    pub fn from_pem(bundle: &[u8]) -> Result<Self, SetupError> {
        let roots = Certificate::from_pem_bundle(bundle)
            .map_err(|error| SetupError::Roots { source: error.into() })?;
        match roots.is_empty() {
            true => Err(SetupError::Roots { source: "the bundle holds no certificate".into() }),
            false => Ok(Self::Only(roots)),
        }
    }

    pub(crate) fn apply(&self, builder: ClientBuilder) -> ClientBuilder {
        match self {
            Self::System => builder,
            Self::Only(roots) => builder.tls_certs_only(roots.iter().cloned()),
        }
    }
}

/// Makes `ring` the cryptography of this process, unless the process chose before.
///
/// The HTTP client takes the process's choice and panics when there is none.
pub(crate) fn install_cryptography() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        if CryptoProvider::get_default().is_none() {
            // Losing a race against another choice is as good as having found it.
            let _ = ring::default_provider().install_default();
        }
    });
}
