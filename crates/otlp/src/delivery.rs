//! Request to the receiver, and the meaning of its answer.

use std::time::Duration;

use prost::Message;
use reqwest::{
    Client, Response, StatusCode, Url,
    header::{CONTENT_TYPE, RETRY_AFTER},
    redirect::Policy,
};
use ringfence_types::error_chain;

use crate::{Config, SetupError, wire::ExportResponse};

/// Connection to the receiver.
#[derive(Debug)]
pub(crate) struct Receiver {
    client: Client,
    endpoint: Url,
}

/// Result of one request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Delivered {
    /// Accepted, except this many spans.
    Taken { rejected: u64, why: String },
    /// May be accepted later.
    Later { after: Option<Duration>, why: String },
    /// Will never be accepted.
    Never { why: String },
}

/// Size limit of an answer.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// Upper bound of a pause that the receiver asks for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

impl Receiver {
    pub(crate) fn new(config: &Config) -> Result<Self, SetupError> {
        // The first installed provider wins; every installation in this process is the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .user_agent(concat!("ringfence/", env!("CARGO_PKG_VERSION")))
            .default_headers(config.headers.clone())
            .timeout(config.timeout)
            .redirect(Policy::none())
            .no_proxy()
            .build()?;
        Ok(Self { client, endpoint: config.endpoint.clone() })
    }

    pub(crate) async fn deliver(&self, body: Vec<u8>) -> Delivered {
        let request = self.client.post(self.endpoint.clone());
        let request = request.header(CONTENT_TYPE, "application/x-protobuf").body(body);
        match request.send().await {
            Ok(response) => read(response).await,
            // The address may hold a secret, so it is not in the message.
            Err(error) => Delivered::Later { after: None, why: error_chain(&error.without_url()) },
        }
    }
}

/// Result by status: the specification allows a retry of these four only.
async fn read(response: Response) -> Delivered {
    let status = response.status();
    let why = format!("status {}", status.as_u16());
    match status {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Delivered::Later { after: pause(&response), why },
        status if status.is_success() => taken(response).await,
        _ => Delivered::Never { why },
    }
}

async fn taken(mut response: Response) -> Delivered {
    let mut body = Vec::new();
    // With a truncated or malformed body the status still says that all spans were accepted.
    while let Ok(Some(piece)) = response.chunk().await {
        body.extend_from_slice(&piece);
        if body.len() > MAX_ANSWER_BYTES {
            break;
        }
    }
    let answer = ExportResponse::decode(body.as_slice()).unwrap_or_default();
    let partial = answer.partial_success.unwrap_or_default();
    let rejected = u64::try_from(partial.rejected_spans).unwrap_or(0);
    Delivered::Taken { rejected, why: partial.error_message.chars().take(200).collect() }
}

fn pause(response: &Response) -> Option<Duration> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    let seconds: u64 = text.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER))
}
