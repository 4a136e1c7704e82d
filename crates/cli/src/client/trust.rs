//! Trusted certificates of a server.

use std::{path::Path, sync::Arc};

use reqwest::{Certificate, ClientBuilder};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};

use super::find::Trust;
use crate::failure::Failure;

/// A client that believes servers as far as this says.
pub(super) fn apply(http: ClientBuilder, trust: &Trust) -> Result<ClientBuilder, Failure> {
    Ok(match trust {
        // Certificates are looked for when the client is made, and a host without any is refused,
        // although a connection in the clear needs none.
        Trust::InTheClear => http.tls_certs_only([]),
        Trust::System => http,
        Trust::Authority(path) => http.tls_certs_only(authorities(path)?),
        Trust::Exactly(path) => http.tls_backend_preconfigured(only(path)?),
    })
}

fn authorities(path: &Path) -> Result<Vec<Certificate>, Failure> {
    let failed = |error: &dyn std::error::Error| {
        Failure::because(format!("cannot use the authorities of `{}`", path.display()), error)
            .hint("--ca and RINGFENCE_CA name a PEM file with certificates")
    };
    let pem = std::fs::read(path).map_err(|error| failed(&error))?;
    let found = Certificate::from_pem_bundle(&pem).map_err(|error| failed(&error))?;
    match found.is_empty() {
        true => Err(failed(&std::io::Error::other("it has no certificate"))),
        false => Ok(found),
    }
}

/// Believes one certificate, for whatever name.
fn only(path: &Path) -> Result<ClientConfig, Failure> {
    let certificate = CertificateDer::from_pem_file(path).map_err(|error| {
        Failure::because(
            format!("cannot read the server's certificate `{}`", path.display()),
            &error,
        )
    })?;
    let provider = ring::default_provider();
    let algorithms = provider.signature_verification_algorithms;
    let builder = ClientConfig::builder_with_provider(Arc::new(provider));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::because("cannot prepare TLS", &error))?;
    let verifier = Arc::new(ExactCertificate { certificate, algorithms });
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// Verifier that knows the server's certificate already, so that neither its name nor its issuer matters.
#[derive(Debug)]
struct ExactCertificate {
    certificate: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for ExactCertificate {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match *shown == self.certificate {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, shown, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, shown, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
