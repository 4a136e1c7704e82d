//! Certificate and key of the listener: read at the start, and again when the files change.

use std::{convert::Infallible, fmt::Write, path::Path, time::Duration};

use ringfence_edge::{Tls, TlsError, Validity};
use ringfence_types::{Clock, Timestamp};

use super::{SystemClock, data};
use crate::{base64, client::certificate_file, failure::Failure, settings::TlsFiles};

/// Between two looks at the files.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// Time before the end of a certificate from which on it is worth a warning.
const RENEWAL_TIME: Duration = Duration::from_secs(14 * 24 * 3600);

/// Reads the pair, or says what is wrong with it.
pub(super) fn open(files: Option<&TlsFiles>) -> Result<Option<Tls>, Failure> {
    let Some(files) = files else { return Ok(None) };
    let tls = Tls::load(&files.certificate, &files.key).map_err(|error| failure(&error))?;
    warn_if_due(&tls);
    Ok(Some(tls))
}

fn failure(error: &TlsError) -> Failure {
    let failure = Failure::because("cannot serve TLS", error);
    match error {
        TlsError::Unreadable { path, .. } => {
            failure.hint(format!("make it readable for this user: ls -l '{}'", path.display()))
        }
        TlsError::NoCertificate { .. } => failure.hint(
            "tls.cert names a PEM file: the certificate of the server, then those of its issuers",
        ),
        TlsError::NoKey { .. } => {
            failure.hint("tls.key names a PEM file with an unencrypted private key")
        }
        TlsError::Mismatch { .. } => failure
            .hint("tls.key must be the key that the first certificate of tls.cert was made for"),
    }
}

/// Tells clients on this machine which certificate the server of the data directory has.
pub(super) fn tell_certificate(tls: Option<&Tls>, data: &Path) -> Result<(), Failure> {
    let Some(tls) = tls else { return Ok(()) };
    let path = certificate_file(data);
    data::write(&path, &pem(&tls.certificate()))
        .map(drop)
        .map_err(|error| Failure::because(format!("cannot write `{}`", path.display()), &error))
}

fn pem(certificate: &[u8]) -> String {
    let text = base64::encode(certificate);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(64) {
        let _ = writeln!(pem, "{}", String::from_utf8_lossy(line));
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

/// Looks for a new pair for as long as it is polled.
pub(super) async fn watch(tls: Option<&Tls>, data: &Path) -> Infallible {
    let Some(tls) = tls else { return std::future::pending().await };
    loop {
        tokio::time::sleep(RELOAD_INTERVAL).await;
        let looking = tls.clone();
        // A disk that hangs must not hold up connections.
        let looked = tokio::task::spawn_blocking(move || looking.reload()).await;
        match looked.ok().flatten() {
            None => {}
            Some(Ok(())) => {
                tracing::info!("new TLS certificate in use");
                warn_if_due(tls);
                if let Err(failure) = tell_certificate(Some(tls), data) {
                    tracing::warn!(
                        error = failure.text(),
                        "clients on this machine may not trust it"
                    );
                }
            }
            Some(Err(error)) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "the changed TLS files cannot be used; the old pair stays");
            }
        }
    }
}

fn warn_if_due(tls: &Tls) {
    match tls.validity().map(|validity| state(validity, SystemClock.now())) {
        Some(Ok(_)) => {}
        Some(Err(due)) => tracing::warn!(due, "renew the TLS certificate"),
        None => tracing::warn!("the validity of the TLS certificate is not understood"),
    }
}

/// The time in which a certificate is valid, in words; as an error if it is not, or not for long.
pub(crate) fn state(validity: Validity, now: Timestamp) -> Result<String, String> {
    let at = |seconds: u64| {
        Timestamp::from_micros(i64::try_from(seconds.saturating_mul(1_000_000)).unwrap_or(i64::MAX))
    };
    let (begins, ends) = (at(validity.not_before), at(validity.not_after));
    if now < begins {
        return Err(format!("the certificate is not valid before {begins}"));
    }
    if now > ends {
        return Err(format!("the certificate expired at {ends}"));
    }
    match now.after(RENEWAL_TIME) > ends {
        true => Err(format!("the certificate expires soon, at {ends}")),
        false => Ok(format!("valid until {ends}")),
    }
}
