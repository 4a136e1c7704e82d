//! Trusted root certificates.

use std::sync::{Arc, Once};

use reqwest::{Certificate, ClientBuilder};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, pem::PemObject},
};

use crate::error::SetupError;

/// Trusted root certificates. There is no variant that trusts every server.
#[derive(Debug, Clone, Default)]
pub enum Roots {
    /// Roots of the operating system, read for each connection, so that an update takes effect.
    #[default]
    System,
    /// Only these, as the HTTP client and as TLS connections of our own take them.
    Only(Vec<Certificate>, Vec<CertificateDer<'static>>),
}

impl Roots {
    /// Roots of a PEM bundle. A bundle without any is an error.
    pub fn from_pem(bundle: &[u8]) -> Result<Self, SetupError> {
        let roots = Certificate::from_pem_bundle(bundle)
            .map_err(|error| SetupError::Roots { source: error.into() })?;
        let ders: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bundle).collect();
        let ders = ders.map_err(|error| SetupError::Roots { source: error.into() })?;
        match roots.is_empty() {
            true => Err(SetupError::Roots { source: "the bundle holds no certificate".into() }),
            false => Ok(Self::Only(roots, ders)),
        }
    }

    pub(crate) fn apply(&self, builder: ClientBuilder) -> ClientBuilder {
        match self {
            Self::System => builder,
            Self::Only(roots, _) => builder.tls_certs_only(roots.iter().cloned()),
        }
    }

    /// Configuration of a TLS client that trusts these roots. Reads files for [`Roots::System`].
    pub(crate) fn client_config(&self) -> Result<Arc<ClientConfig>, SetupError> {
        install_cryptography();
        let mut store = RootCertStore::empty();
        match self {
            Self::System => {
                let found = rustls_native_certs::load_native_certs();
                store.add_parsable_certificates(found.certs);
            }
            Self::Only(_, ders) => drop(store.add_parsable_certificates(ders.iter().cloned())),
        }
        if store.is_empty() {
            return Err(SetupError::Roots { source: "there is no usable certificate".into() });
        }
        let config = ClientConfig::builder().with_root_certificates(store).with_no_client_auth();
        Ok(Arc::new(config))
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
