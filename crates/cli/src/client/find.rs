//! Finding the server and the key.
//!
//! A server writes its address into its data directory and locks that file while it lives, so a
//! file that a crash left behind is ignored.
//!
//! Invariant: the admin key of the data directory goes to the server of that data directory only.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{cli::ClientArgs, config, failure::Failure};

/// A server as far as it is known.
#[derive(Debug)]
pub(super) struct FoundServer {
    pub(super) url: String,
    pub(super) key: Option<String>,
    pub(super) data: PathBuf,
    pub(super) trust: Trust,
}

/// Trusted certificates.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// No TLS.
    InTheClear,
    /// Certificates of the authorities of this system.
    System,
    /// Certificates of the authorities in this file.
    Authority(PathBuf),
    /// The certificate in this file.
    Exactly(PathBuf),
}

/// File in which a server with TLS keeps the certificate that it uses.
pub(crate) fn certificate_file(data: &Path) -> PathBuf {
    data.join("server.crt")
}

/// File with the address of a server.
pub(crate) fn address_file(data: &Path) -> PathBuf {
    data.join("server.json")
}

#[derive(Deserialize)]
struct Told {
    url: String,
}

pub(super) fn server(args: &ClientArgs) -> Result<FoundServer, Failure> {
    let data = config::data_dir(args.data.data.clone());
    let named = match &args.url {
        Some(url) => Some(url.clone()),
        None => config::server_url().map(|url| text("RINGFENCE_URL", url)).transpose()?,
    };
    let key = config::server_key().map(|key| text("RINGFENCE_KEY", key)).transpose()?;
    let local = local(&data)?;
    let authority = args.ca.clone().or_else(|| config::server_ca().map(PathBuf::from));
    let is_found = named.is_none();
    let url = match (named, &local) {
        (Some(url), _) => checked(&url)?,
        (None, Some(url)) => url.clone(),
        (None, None) => return Err(not_running(&data)),
    };
    let is_local = local.as_ref() == Some(&url);
    let key = match key {
        None if is_local => admin_key(&data),
        key => key,
    };
    let trust = match authority {
        _ if !url.to_ascii_lowercase().starts_with("https:") => Trust::InTheClear,
        Some(path) if !is_found => Trust::Authority(path),
        _ if is_local => Trust::Exactly(certificate_file(&data)),
        _ => Trust::System,
    };
    Ok(FoundServer { url, key, data, trust })
}

fn text(name: &str, value: std::ffi::OsString) -> Result<String, Failure> {
    let text = value.into_string().ok().map(|text| text.trim().to_owned());
    // A line break would end the header that carries the key.
    let text = text.filter(|text| !text.chars().any(char::is_control));
    text.ok_or_else(|| Failure::new(format!("{name} is not plain text")))
}

/// Whether a server runs on the data directory.
pub(crate) fn is_running(data: &Path) -> bool {
    local(data).is_ok_and(|found| found.is_some())
}

/// The server of the data directory, if one lives.
fn local(data: &Path) -> Result<Option<String>, Failure> {
    let path = address_file(data);
    let failed = |error: io::Error| {
        let message = format!("read `{}`", path.display());
        Failure::because(message, &error).hint(
            "run this as the user that runs the server, or set RINGFENCE_URL and RINGFENCE_KEY",
        )
    };
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    match file.try_lock_shared() {
        // The file is not locked, so the server that wrote it is gone.
        Ok(()) => return Ok(None),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    let told = io::read_to_string(file).map_err(failed)?;
    let told: Option<Told> = serde_json::from_str(&told).ok();
    Ok(told.map(|told| told.url))
}

fn not_running(data: &Path) -> Failure {
    let message = format!("no server runs on the data directory `{}`", data.display());
    Failure::new(message).hint(format!(
        "start one: ringfence serve --data {}; or name one with --url or RINGFENCE_URL",
        data.display()
    ))
}

/// The admin key; none if its file cannot be read: the server then reports a missing key.
fn admin_key(data: &Path) -> Option<String> {
    let key = fs::read_to_string(data.join("admin.key")).ok()?;
    Some(key.trim().to_owned())
}

fn checked(url: &str) -> Result<String, Failure> {
    let is_http = url.starts_with("http://") || url.starts_with("https://");
    if !is_http || reqwest::Url::parse(url).is_err() {
        let message = format!("`{url}` is not a URL such as http://127.0.0.1:7420");
        return Err(Failure::new(message));
    }
    Ok(url.trim_end_matches('/').to_owned())
}
