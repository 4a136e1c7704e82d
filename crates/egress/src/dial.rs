//! Connections to vetted addresses.

use std::{io, sync::Arc, time::Duration};

use ringfence_types::TenantId;
use rustls::pki_types::{IpAddr as TlsAddress, ServerName};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{error::Error, fetch::Fetcher, host::Host, target::Target};

impl Fetcher {
    /// Connection to one of the vetted addresses of `url`. The name is resolved once, and only the
    /// answers that were vetted are dialled.
    pub(crate) async fn dial(
        &self,
        url: &Target,
        tenant: Option<&TenantId>,
        limit: Duration,
    ) -> Result<TcpStream, Error> {
        let addresses = self.vetted(url, tenant).await?;
        let connecting = async {
            let mut failed = io::Error::from(io::ErrorKind::NotFound);
            for address in addresses {
                match TcpStream::connect(address).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => failed = error,
                }
            }
            Err(failed)
        };
        let connected = timeout(limit, connecting).await;
        let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let failed = |source: io::Error| Error::ConnectFailed {
            host: url.host().clone(),
            source: source.into(),
        };
        let stream = connected.map_err(failed)?;
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    /// TLS over a connection, with the certificate verified for the host of `url`.
    pub(crate) async fn encrypt(
        &self,
        url: &Target,
        stream: TcpStream,
        limit: Duration,
    ) -> Result<TlsStream<TcpStream>, Error> {
        let config = self.tls().await?;
        let failed = |source: io::Error| Error::TlsFailed {
            host: url.host().clone(),
            source: source.into(),
        };
        let name = match url.host() {
            Host::Name(name) => ServerName::try_from(name.as_str().to_owned())
                .map_err(|error| failed(io::Error::other(error)))?,
            Host::Address(address) => ServerName::IpAddress(TlsAddress::from(*address)),
        };
        let shaking = TlsConnector::from(Arc::clone(&config)).connect(name, stream);
        let shaken = timeout(limit, shaking).await;
        shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(failed)
    }
}
