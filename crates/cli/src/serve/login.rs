//! Link that signs an operator in to the console once.

use std::{
    fs,
    io::{IsTerminal, stderr},
    path::Path,
};

use ringfence_console::Console;

use super::parts::Opened;

/// Address that signs in with the admin key of the data directory, once. None if there is no terminal to
/// show it on, or if that key cannot be used any more.
pub(super) async fn link(opened: &Opened, data: &Path, url: &str) -> Option<String> {
    if !stderr().is_terminal() {
        return None;
    }
    let secret = fs::read_to_string(data.join("admin.key")).ok()?;
    let token = opened.engine.access().make_login_link(secret.trim().as_bytes()).await.ok()?;
    Some(format!("{url}{}", Console::login_path(&token)))
}
