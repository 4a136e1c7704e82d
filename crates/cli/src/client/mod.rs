//! HTTP client of a server: finding it, requests, and helpful errors.

mod failed;
mod find;
pub(crate) mod pretty;
pub(crate) mod short_id;
pub(crate) mod sse;
mod trust;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use reqwest::{Method, RequestBuilder, Response};
use ringfence_types::CallId;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use self::find::{address_file, certificate_file, is_running};
use self::short_id::{Kind, is_short};
use crate::{cli::ClientArgs, exit, failure::Failure, run::runtime};

/// A server.
#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    /// Base URL without a slash at the end.
    base: String,
    key: Option<String>,
    /// Data directory of a local server, for hints.
    data: PathBuf,
}

/// Timeout of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

impl Client {
    /// The server named by the arguments, the environment or the data directory.
    pub(crate) fn find(args: &ClientArgs) -> Result<Self, Failure> {
        let found = find::server(args)?;
        // The client library has no TLS provider of its own.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = trust::apply(reqwest::Client::builder(), &found.trust)?
            .user_agent(concat!("ringfence/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            // The key goes to the named server and nowhere else.
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(|error| Failure::because("cannot prepare the connection", &error))?;
        Ok(Self { http, base: found.url, key: found.key, data: found.data })
    }

    /// The same server with another key.
    pub(crate) fn with_key(&self, key: &str) -> Self {
        let (http, base, data) = (self.http.clone(), self.base.clone(), self.data.clone());
        Self { http, base, key: Some(key.to_owned()), data }
    }

    /// Base URL of the server, without a slash at the end.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Sends a GET request and parses the answer as JSON.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let response = self.send(self.request(Method::GET, path)).await?;
        self.read(response).await
    }

    /// Posts JSON and parses the answer as JSON.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let request = self.request(Method::POST, path);
        let request = request.header("content-type", "application/json").body(body.to_string());
        let response = self.send(request).await?;
        self.read(response).await
    }

    /// A request with the key.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    /// Sends a request; an answer other than success is a failure.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        match response.status().is_success() {
            true => Ok(response),
            false => Err(self.refused(response).await),
        }
    }

    /// The whole answer as text.
    pub(crate) async fn text(&self, response: Response) -> Result<String, Failure> {
        response.text().await.map_err(|error| self.broken(&error))
    }

    async fn read<T: DeserializeOwned>(&self, response: Response) -> Result<T, Failure> {
        let text = self.text(response).await?;
        serde_json::from_str(&text)
            .map_err(|error| Failure::because("the server's answer is not understood", &error))
    }
}

/// Runs a command against the server that the arguments name.
pub(crate) fn on_server(
    args: &ClientArgs,
    work: impl AsyncFnOnce(&Client) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let done = runtime()?.block_on(async { work(&Client::find(args)?).await });
    done.map(|()| ExitCode::from(exit::DONE)).map_err(|failure| failure.in_json(args.json))
}

/// The call with this id or id suffix; none if it must be a session.
pub(crate) async fn call_or_session(client: &Client, id: &str) -> Result<Option<String>, Failure> {
    if id.parse::<CallId>().is_ok() {
        return Ok(Some(id.to_owned()));
    }
    if !is_short(id) || client.ending_with(Kind::Call, id).await?.is_empty() {
        return Ok(None);
    }
    client.whole_id(Kind::Call, id).await.map(Some)
}

/// A part of a path or query, with everything but unreserved characters escaped.
pub(crate) fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn what_could_change_a_path_is_escaped() {
        assert_eq!(escaped("a-b_c.d~9"), "a-b_c.d~9");
        assert_eq!(escaped("../x?y=é"), "..%2Fx%3Fy%3D%C3%A9");
    }
}
