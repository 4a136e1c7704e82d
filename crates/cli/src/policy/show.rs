//! `ringfence policy show`: the built-in rules, and the rules that a server has in force.

use std::process::ExitCode;

use ringfence_policy::Bundle;
use serde_json::{Value, json};

use crate::{
    client::{Client, escaped},
    exit,
    failure::Failure,
    print,
    table::{Table, plain},
};

/// Prints the rules that are part of the binary.
pub(super) fn built_in(is_json: bool) -> ExitCode {
    let bundle = Bundle::built_in();
    for (name, text) in bundle.files() {
        match is_json {
            true => print::line(&json!({"name": name, "text": text}).to_string()),
            false => print::data(text.as_bytes()),
        }
    }
    ExitCode::from(exit::DONE)
}

/// Prints the digest of the rules in force and their files.
pub(super) async fn in_force(client: &Client, tenant: &str, is_json: bool) -> Result<(), Failure> {
    let shown: Value = client.get(&format!("/v1/policies/{}", escaped(tenant))).await?;
    if is_json {
        print::line(&shown.to_string());
        return Ok(());
    }
    let text = |name: &str| plain(shown[name].as_str().unwrap_or("-"));
    print::line(&format!("tenant  {}", text("tenant")));
    print::line(&format!("engine  {}", text("engine")));
    print::line(&format!("policy  {}", text("policy")));
    let files = shown["rules"].as_array().map_or(&[][..], Vec::as_slice);
    if files.is_empty() {
        print::note("the rules are not files of this server\n");
        return Ok(());
    }
    let mut table = Table::new(["FILE", "BYTES", "DIGEST"]);
    for file in files {
        let text = |name: &str| file[name].as_str().unwrap_or("-").to_owned();
        table.row([text("name"), file["bytes"].to_string(), text("digest")]);
    }
    print::data(table.text().as_bytes());
    Ok(())
}
