//! TLS of the listener: a certificate and its key from two files, which may be replaced while the server
//! runs.
//!
//! A new pair is used for connections from then on; those that are open go on with the old one. A pair that
//! cannot be used changes nothing.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio_rustls::TlsAcceptor;
use webpki::{EndEntityCert, KeyUsage};

/// Certificate chain and key of the server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Tls {
    pair: Arc<Pair>,
    config: Arc<ServerConfig>,
}

/// Two files and what is in use of them.
#[derive(Debug)]
struct Pair {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<Arc<CertifiedKey>>,
    /// The files as they were when they were last read.
    read: Mutex<[FileStamp; 2]>,
}

/// A pair of files that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("read `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// The file of certificates has none, or other text than PEM.
    #[error("`{}` has no certificate in PEM", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The file of the key has none, or other text than PEM.
    #[error("`{}` has no private key in PEM", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// The key is of an unknown kind, the certificate is malformed, or they do not belong together.
    #[error("`{}` and `{}` cannot be used together", certificate.display(), key.display())]
    Mismatch {
        /// The file of certificates.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why.
        #[source]
        cause: rustls::Error,
    },
}

/// Time in which a certificate is valid, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// First second.
    pub not_before: u64,
    /// Last second.
    pub not_after: u64,
}

impl Tls {
    /// Reads a pair of files.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let read = Mutex::new(stamps(certificate, key));
        let current = RwLock::new(Arc::new(certified_key(certificate, key)?));
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        let pair = Arc::new(Pair { certificate, key, current, read });
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder
            .with_safe_default_protocol_versions()
            .expect("the provider knows TLS 1.2 and TLS 1.3");
        let mut config = builder.with_no_client_auth().with_cert_resolver(pair.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { pair, config: Arc::new(config) })
    }

    /// Reads the files again if they changed since they were last read. `None` if they did not; on an error
    /// the pair in use stays in use.
    pub fn reload(&self) -> Option<Result<(), TlsError>> {
        let (certificate, key) = (&self.pair.certificate, &self.pair.key);
        // Before they are read: what is written meanwhile is seen as a change the next time.
        let now = stamps(certificate, key);
        let before = {
            let mut read = self.pair.read.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *read, now)
        };
        if before == now {
            return None;
        }
        Some(certified_key(certificate, key).map(|fresh| {
            let mut current = self.pair.current.write().unwrap_or_else(PoisonError::into_inner);
            *current = Arc::new(fresh);
        }))
    }

    /// The certificate in use, without those of its issuers.
    pub fn certificate(&self) -> CertificateDer<'static> {
        // A pair that was loaded has at least one.
        self.pair.current().cert.first().cloned().unwrap_or_else(|| Vec::new().into())
    }

    /// The certificate in use and those of its issuers.
    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.pair.current().cert.clone()
    }

    /// Time in which the certificate in use is valid; `None` if it does not say so in a way that is
    /// understood.
    pub fn validity(&self) -> Option<Validity> {
        validity(&self.certificate())
    }

    /// Acceptor that begins TLS on a connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.config.clone().into()
    }
}

impl Pair {
    fn current(&self) -> Arc<CertifiedKey> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for Pair {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

/// Far larger than a chain of certificates.
const MAX_PEM_BYTES: u64 = 1 << 20;

fn certified_key(certificate: &Path, key: &Path) -> Result<CertifiedKey, TlsError> {
    let no_certificate = || TlsError::NoCertificate { path: certificate.to_owned() };
    let pem = content(certificate)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(no_certificate)?;
    let private = PrivateKeyDer::from_pem_slice(&content(key)?)
        .map_err(|_| TlsError::NoKey { path: key.to_owned() })?;
    CertifiedKey::from_der(chain, private, &ring::default_provider()).map_err(|cause| {
        TlsError::Mismatch { certificate: certificate.to_owned(), key: key.to_owned(), cause }
    })
}

fn content(path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_PEM_BYTES).read_to_end(&mut bytes))
        .map_err(|cause| TlsError::Unreadable { path: path.to_owned(), cause })?;
    Ok(bytes)
}

/// Stamp that differs between two versions of a file: device, inode, size, time of change. `None` if
/// there is no file.
type FileStamp = Option<[i64; 5]>;

fn stamps(certificate: &Path, key: &Path) -> [FileStamp; 2] {
    let stamp = |path: &Path| {
        let found = fs::metadata(path).ok()?;
        let (device, inode, size) = (found.dev() as i64, found.ino() as i64, found.size() as i64);
        Some([device, inode, size, found.ctime(), found.ctime_nsec()])
    };
    [stamp(certificate), stamp(key)]
}

/// Time in which a certificate is valid. The library tells a bound when it is asked about a time beyond it.
fn validity(certificate: &CertificateDer<'_>) -> Option<Validity> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let at = |seconds| {
        let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        certificate.verify_for_usage(&[], &[], &[], time, KeyUsage::server_auth(), None, None).err()
    };
    let not_after = match at(u64::MAX) {
        Some(webpki::Error::CertExpired { not_after, .. }) => not_after.as_secs(),
        _ => return None,
    };
    let not_before = match at(0) {
        Some(webpki::Error::CertNotValidYet { not_before, .. }) => not_before.as_secs(),
        _ => 0,
    };
    Some(Validity { not_before, not_after })
}
