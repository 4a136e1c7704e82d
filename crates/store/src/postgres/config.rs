//! Address of the database, and how connections to it are made.

use std::{fmt, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use tokio_postgres::{Config, config::SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::Error;

/// Time limit of opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time without an answer after which a peer is asked whether it is there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);

/// Time between two such questions.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(3);

/// Time that sent bytes may stay unacknowledged.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(10);

/// Settings of every session, in milliseconds: a statement, a wait for a lock, and a transaction in which
/// nothing is asked. A process that stalls inside a transaction holds up others for the last at most.
const SESSION: &str = "-c statement_timeout=10000 -c lock_timeout=5000 \
    -c idle_in_transaction_session_timeout=2000 -c default_transaction_isolation=read\\ committed \
    -c synchronous_commit=on -c client_min_messages=warning \
    -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=3 -c tcp_keepalives_count=3 \
    -c tcp_user_timeout=10000";

/// Address of a PostgreSQL database: a URL with the scheme `postgres` or `postgresql`.
///
/// The certificate of the server is always verified, by the roots of the system or by those of the file that
/// `sslrootcert` names. `sslmode` is `disable`, `prefer`, `require` or `verify-full`; the last two are the
/// same.
#[derive(Clone)]
pub struct PostgresUrl {
    config: Config,
    roots: Option<PathBuf>,
    /// Address without the password.
    shown: String,
}

/// Invalid address of a database.
#[derive(Debug, thiserror::Error)]
pub enum InvalidPostgresUrl {
    /// It has another scheme.
    #[error("the address of the store must begin with `postgres://` or `postgresql://`")]
    Scheme,
    /// It names no host.
    #[error("the address of the store names no host: postgres://USER@HOST/DATABASE")]
    Host,
    /// It cannot be parsed.
    #[error("invalid address of the store")]
    Syntax(#[source] tokio_postgres::Error),
}

impl PostgresUrl {
    /// Whether a text looks like such an address.
    pub fn is_url(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Connector that verifies the certificate of the server.
    pub(super) fn tls(&self) -> Result<MakeRustlsConnect, Error> {
        let roots = match &self.roots {
            Some(path) => certificates(path)?,
            None => system_certificates(),
        };
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(Error::backend("set up TLS to the database"))?;
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        Ok(MakeRustlsConnect::new(config))
    }
}

fn certificates(path: &PathBuf) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    let failed = "read the certificates in `sslrootcert`";
    let found = CertificateDer::pem_file_iter(path).map_err(Error::backend(failed))?;
    for certificate in found {
        let certificate = certificate.map_err(Error::backend(failed))?;
        roots.add(certificate).map_err(Error::backend(failed))?;
    }
    Ok(roots)
}

fn system_certificates() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // A host without any cannot verify a server, which the handshake then says.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

impl FromStr for PostgresUrl {
    type Err = InvalidPostgresUrl;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if !Self::is_url(text) {
            return Err(InvalidPostgresUrl::Scheme);
        }
        let (address, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut roots, mut parameters) = (None, Vec::new());
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("sslrootcert", path)) => roots = Some(PathBuf::from(decode(path))),
                Some(("sslmode", "verify-full" | "verify-ca")) => {
                    parameters.push("sslmode=require");
                }
                _ => parameters.push(parameter),
            }
        }
        let text = format!("{address}?{}", parameters.join("&"));
        let mut config: Config = text.parse().map_err(InvalidPostgresUrl::Syntax)?;
        if config.get_hosts().is_empty() {
            return Err(InvalidPostgresUrl::Host);
        }
        if roots.is_some() && config.get_ssl_mode() == SslMode::Prefer {
            config.ssl_mode(SslMode::Require);
        }
        let options = config.get_options().map_or(String::new(), |given| format!("{given} "));
        config.options(format!("{options}{SESSION}"));
        if config.get_application_name().is_none() {
            config.application_name("ringfence");
        }
        config.connect_timeout(CONNECT_TIMEOUT);
        config.keepalives(true).keepalives_idle(KEEPALIVE_IDLE);
        config.keepalives_interval(KEEPALIVE_INTERVAL).keepalives_retries(3);
        config.tcp_user_timeout(TCP_USER_TIMEOUT);
        Ok(Self { config, roots, shown: without_password(address) })
    }
}

/// Text of a parameter without percent encoding.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match hex.and_then(|two| u8::from_str_radix(two, 16).ok()).filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn without_password(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return String::new() };
    let Some((user, host)) = rest.rsplit_once('@') else { return address.to_owned() };
    let user = user.split(':').next().unwrap_or_default();
    format!("{scheme}://{user}@{host}")
}

/// Without the password.
impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        let url: PostgresUrl = "postgres://me:secret@db:5433/main?sslmode=disable".parse().unwrap();
        assert_eq!(
            format!("{url} {url:?}"),
            format!("{0} PostgresUrl({0})", "postgres://me@db:5433/main")
        );
        assert_eq!(url.config().get_ports(), [5433]);
        assert_eq!(url.config().get_ssl_mode(), SslMode::Disable);
    }

    #[test]
    fn certificates_of_ones_own_ask_for_tls() {
        let url: PostgresUrl = "postgres://db/main?sslrootcert=/a%20b.pem".parse().unwrap();
        assert_eq!(url.config().get_ssl_mode(), SslMode::Require);
        assert_eq!(url.roots, Some(PathBuf::from("/a b.pem")));
        let url: PostgresUrl = "postgresql://db/main?sslmode=verify-full".parse().unwrap();
        assert_eq!(url.config().get_ssl_mode(), SslMode::Require);
    }

    #[test]
    fn what_is_no_address_of_a_database_is_refused() {
        for text in ["", "mysql://db/x", "postgres:///x", "postgres://db/x?sslmode=perhaps"] {
            assert!(text.parse::<PostgresUrl>().is_err(), "{text}");
        }
    }
}
