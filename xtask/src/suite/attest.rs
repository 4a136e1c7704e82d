//! Ledger evidence, checked by third-party tools: envelopes by securesystemslib, statements by
//! in-toto-attestation, the tree and its checkpoint from their specifications.

use std::time::Instant;

use anyhow::Result;

use super::{Staged, python};
use crate::report::Row;
use crate::shell;

/// Package versions that this suite is known to work with.
const PACKAGES: &[&str] =
    &["securesystemslib==1.6.0", "in-toto-attestation==0.9.3", "cryptography==50.0.2"];

const FOLDER: &str = "crates/cli/tests/attest";

pub(super) fn run(staged: &Staged) -> Result<Row> {
    println!("attest: the ledger, verified by others");
    let started = Instant::now();
    let mut python = shell::command(python::environment("attest", PACKAGES)?);
    python.env("RINGFENCE_BINARY", &staged.binary);
    python::unittest("attest", python, FOLDER, started)
}
