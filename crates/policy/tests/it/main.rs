//! Policy engines with real rules.

mod broken;
mod built_in;
mod canary;
mod case;
mod combined;
mod explain;
mod folder;
mod hostile;
mod log;
mod reload;
mod remote;
mod suite;

use std::time::Duration;

use ringfence_policy::{Bundle, Decided, InvalidBundle, Rego, contract::document, decide};
use ringfence_types::Decision;

/// Loads one file of rules.
fn load(rules: &str) -> Result<Rego, InvalidBundle> {
    Rego::load(&Bundle::from_files([("rules.rego", rules)])?)
}

/// Decision by these rules, and whether there is a permit.
async fn decided(rules: &str, args: &str) -> (bool, Decision) {
    let rego = load(rules).expect("rules that load");
    match decide(&rego, &document(&["none"], args)).await {
        Decided::Allow(_, decision) => (true, decision),
        Decided::Hold(decision) | Decided::Deny(decision) => (false, decision),
    }
}

/// Waits for a condition; far longer than anything takes on a busy machine.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            // Yields the processor; the deadline is what bounds the wait.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    assert!(waited.is_ok(), "never came true: {what}");
}
