//! What is said when the server is ready: where it is, what it keeps to, how to call it.

use std::fmt::Write;

use ringfence_api::keys::NewKey;
use serde_json::{Value, json};

use super::parts::Opened;
use crate::{print, settings::Settings, table::plain};

/// Everything worth a line.
#[derive(Debug)]
pub(super) struct Banner<'a> {
    pub(super) settings: &'a Settings,
    pub(super) opened: &'a Opened,
    pub(super) url: &'a str,
    /// The first key, if it was made just now.
    pub(super) key: Option<&'a NewKey>,
}

impl Banner<'_> {
    /// To standard output as one object, or to standard error in words.
    pub(super) fn show(&self, is_json: bool) {
        match is_json {
            true => print::line(&self.json().to_string()),
            false => print::note(&self.text()),
        }
    }

    fn json(&self) -> Value {
        let catalogue = self.opened.engine.registry().catalogue();
        let broken = catalogue.broken().iter();
        let broken: Vec<_> =
            broken.map(|b| json!({"name": b.name, "problems": b.problems})).collect();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "url": self.url,
            "pid": std::process::id(),
            "data": self.settings.data,
            "isolation": isolation(),
            "policy": self.opened.policy,
            "tools": catalogue.entries().len(),
            "broken": broken,
            "admin_key": self.key.map(|key| key.secret.reveal()),
            "admin_key_file": self.settings.data.join("admin.key"),
        })
    }

    fn text(&self) -> String {
        let catalogue = self.opened.engine.registry().catalogue();
        let data = self.settings.data.display();
        let rules = match &self.settings.policy.folder {
            Some(folder) => folder.display().to_string(),
            None => "built-in".to_owned(),
        };
        let mut text = format!("ringfence {}\n\n", env!("CARGO_PKG_VERSION"));
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "  {name:<10} {value}");
        };
        line("listening", format!("{} (docs at {}/docs)", self.url, self.url));
        line("data", data.to_string());
        line("isolation", isolation().to_owned());
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

    /// To be pasted into a shell.
    fn example(&self) -> String {
        format!(
            "  curl {}/v1/calls -H \"Authorization: Bearer $(cat {}/admin.key)\" \\\n    \
             -H 'Content-Type: application/json' -d '{{\"tool\":\"echo\",\"args\":{{\"text\":\"hello\"}}}}'\n",
            self.url,
            self.settings.data.display()
        )
    }
}

fn isolation() -> &'static str {
    match rustix::process::geteuid().is_root() {
        true => "root: each sandbox has users of its own",
        false => "rootless: sandboxes are made with the rights of this user",
    }
}
