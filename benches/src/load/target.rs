//! Request to a running service, and the check of its answer.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{http, plan::Row, service::Service};

/// Repeated request.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) path: String,
    pub(crate) key: Option<String>,
    pub(crate) body: String,
    /// Part of every correct answer and of no wrong one.
    pub(crate) mark: String,
}

impl Target {
    pub(crate) fn of(row: &Row, service: &Service) -> Self {
        Self {
            address: service.address,
            path: row.path.clone(),
            key: service.key.clone(),
            body: row.body.clone(),
            mark: row.mark.clone(),
        }
    }

    /// Bytes to send.
    pub(crate) fn request(&self) -> Vec<u8> {
        http::request(self.address, &self.path, self.key.as_deref(), Some(&self.body))
    }

    /// Sends the request once and compares the whole answer; Ringfence must have a receipt too.
    pub(crate) fn check(&self, row: &Row, is_ours: bool) -> Result<()> {
        let answer = http::ask(self.address, &self.request())?;
        ensure!(answer.status == 200, "status {}: {}", answer.status, answer.body);
        ensure!(answer.body.contains(&self.mark), "no `{}` in {}", self.mark, answer.body);
        let said: Value =
            serde_json::from_str(&answer.body).context("an answer that is no JSON")?;
        let result = if is_ours { &said["result"] } else { &said };
        ensure!(*result == row.answer, "expected {}, got {}", row.answer, answer.body);
        if is_ours { self.check_receipt(&said) } else { Ok(()) }
    }

    fn check_receipt(&self, call: &Value) -> Result<()> {
        let id = call["id"].as_str().context("a call without an id")?;
        let path = format!("/v1/calls/{id}/receipt");
        let ask = http::request(self.address, &path, self.key.as_deref(), None);
        let answer = http::ask(self.address, &ask)?;
        ensure!(answer.status == 200, "no receipt: {}: {}", answer.status, answer.body);
        Ok(())
    }
}
