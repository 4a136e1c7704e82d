//! Trusted root certificates.

use std::sync::Once;

use reqwest::{Certificate, ClientBuilder};
use rustls::crypto::{CryptoProvider, ring};

use crate::error::SetupError;

/// Trusted root certificates. There is no variant that trusts every server.
#[derive(Debug, Clone, Default)]
pub enum Roots {
    /// Roots of the operating system, read for each connection, so that an update takes effect.
    #[default]
    System,
    /// Only these.
    Only(Vec<Certificate>),
}

impl Roots {
    /// Roots of a PEM bundle. A bundle without any is an error.
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

/// Installs `ring` as the cryptography provider of this process, unless one is installed.
///
/// The HTTP client uses the installed provider and panics without one.
pub(crate) fn install_cryptography() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        if CryptoProvider::get_default().is_none() {
            // Losing a race against another installation is fine.
            let _ = ring::default_provider().install_default();
        }
    });
}
