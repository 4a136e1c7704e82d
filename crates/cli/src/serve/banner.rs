//! Report of a ready server: its address, its settings, an example call.
//!
//! Invariant: the admin key and the login link are shown on a terminal only. Other outputs are
//! stored: a journal, a file, a log collector.

use std::{
    fmt::Write,
    io::{IsTerminal, stderr},
};

use ringfence_access::NewKey;
use ringfence_jail::ids;
use serde_json::{Value, json};

use super::parts::Opened;
use crate::{doctor::layer_names, print, settings::Settings, table::plain};

/// Content of the report.
#[derive(Debug)]
pub(super) struct Banner<'a> {
    pub(super) settings: &'a Settings,
    pub(super) opened: &'a Opened,
    pub(super) url: &'a str,
    /// The first key, if it was made just now.
    pub(super) key: Option<&'a NewKey>,
    /// Address that signs in to the console once.
    pub(super) login: Option<&'a str>,
}

impl Banner<'_> {
    /// Prints the report: one object on standard output, text on a terminal, or one log line.
    pub(super) fn show(&self, is_json: bool) {
        if is_json {
            print::line(&self.json().to_string());
        } else if stderr().is_terminal() && !self.settings.log.is_json {
            print::note(&self.text());
        } else {
            self.log();
        }
    }

    fn log(&self) {
        let admin_key_file = self.settings.data.join("admin.key");
        let (version, url) = (env!("CARGO_PKG_VERSION"), self.url);
        tracing::info!(version, url, admin_key_file = %admin_key_file.display(), "listening");
    }

    fn json(&self) -> Value {
        let catalogue = self.opened.engine.tools();
        let broken = catalogue.broken().iter();
        let broken: Vec<_> =
            broken.map(|b| json!({"name": b.name, "problems": b.problems})).collect();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "url": self.url,
            "console": format!("{}/console", self.url),
            "pid": std::process::id(),
            "data": self.settings.data,
            "isolation": isolation(),
            "missing_layers": self.opened.engine.missing_layers(),
            "policy": self.opened.policy,
            "tools": catalogue.entries().len(),
            "broken": broken,
            "admin_key_file": self.settings.data.join("admin.key"),
        })
    }

    fn text(&self) -> String {
        let catalogue = self.opened.engine.tools();
        let data = self.settings.data.display();
        let rules = match &self.settings.policy.folder {
            Some(folder) => folder.display().to_string(),
            None => "built-in".to_owned(),
        };
        let missing = self.opened.engine.missing_layers();
        let mut text = format!("ringfence {}\n\n", env!("CARGO_PKG_VERSION"));
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "  {name:<10} {value}");
        };
        line("listening", format!("{} (docs at {}/docs)", self.url, self.url));
        match self.login {
            Some(login) => {
                line("console", login.to_owned());
                line("", "signs in once, within 15 minutes".to_owned());
            }
            None => line("console", format!("{}/console", self.url)),
        }
        line("data", data.to_string());
        line("isolation", isolation().to_owned());
        if !missing.is_empty() {
            line("missing", format!("{} (allowed)", layer_names(&missing)));
        }
        line("policy", format!("{rules}, {}", self.opened.policy));
        line("tools", catalogue.entries().len().to_string());
        for broken in catalogue.broken() {
            let problems = broken.problems.join("; ");
            line("broken", plain(&format!("{}: {problems}", broken.name)));
        }
        match self.key {
            Some(key) => {
                line("admin key", format!("{} (shown this once)", key.secret.reveal()));
                line("", format!("kept in {data}/admin.key"));
            }
            None => line("admin key", format!("in {data}/admin.key")),
        }
        let _ = write!(text, "\n{}\n", self.example());
        text
    }

    /// Lines to paste into a shell.
    fn example(&self) -> String {
        let (url, data) = (self.url, self.settings.data.display());
        format!(
            "  export RINGFENCE_URL={url} RINGFENCE_KEY=$(cat '{data}/admin.key')\n  \
             ringfence call echo text=hello\n\n  \
             curl $RINGFENCE_URL/v1/calls -H \"Authorization: Bearer $RINGFENCE_KEY\" \\\n    \
             -H 'Content-Type: application/json' -d '{{\"tool\":\"echo\",\"args\":{{\"text\":\"hello\"}}}}'\n"
        )
    }
}

fn isolation() -> &'static str {
    match (ids::is_host_root(), ids::for_sandboxes().is_some()) {
        (true, _) => "root: each sandbox has users of its own",
        (false, true) => "rootless: each sandbox has a subordinate user of its own",
        (false, false) => "rootless: sandboxes are made with the rights of this user",
    }
}
