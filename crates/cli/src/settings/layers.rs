//! Values as text, each with its source; a later layer overrides an earlier one.

use std::path::{Path, PathBuf};

use super::{
    file,
    keys::{self, Host, Key},
};
use crate::cli::SettingsArgs;

/// Source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    Default,
    File(PathBuf),
    Variable(String),
    Flag(&'static str),
}

impl Source {
    /// Short description for people.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Default => "default".to_owned(),
            Self::File(path) => path.display().to_string(),
            Self::Variable(name) => name.clone(),
            Self::Flag(name) => (*name).to_owned(),
        }
    }
}

/// A value and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    /// One value, several for a list, or none without a default.
    pub(super) values: Vec<String>,
    pub(super) source: Source,
}

/// All settings, merged.
#[derive(Debug)]
pub(super) struct Layers {
    rows: Vec<(Key, Given)>,
    /// Tables of `policy`, and their file.
    policy: Option<(toml::Table, PathBuf)>,
}

impl Layers {
    pub(super) fn of_defaults(host: &Host) -> Self {
        let row = |key: Key| {
            let given = Given { values: key.default.clone(), source: Source::Default };
            (key, given)
        };
        Self { rows: keys::all(*host).into_iter().map(row).collect(), policy: None }
    }

    /// Sets the data directory, which has a flag older than the settings, and its default.
    pub(super) fn data(&mut self, flag: Option<&PathBuf>, usual: PathBuf) {
        self.lay([("data", given(&usual, Source::Default))]);
        self.lay(flag.map(|path| ("data", given(path, Source::Flag("--data")))));
    }

    /// Overrides values.
    pub(super) fn lay(&mut self, values: impl IntoIterator<Item = (&'static str, Given)>) {
        for (name, value) in values {
            if let Some((_, row)) = self.rows.iter_mut().find(|(key, _)| key.name == name) {
                *row = value;
            }
        }
    }

    /// Overrides values by those of the file.
    pub(super) fn file(&mut self, found: file::FileSettings) {
        self.lay(found.settings);
        self.policy = found.policy;
    }

    pub(super) fn policy(&self) -> Option<(&toml::Table, &Path)> {
        self.policy.as_ref().map(|(table, path)| (table, path.as_path()))
    }

    /// Overrides values by the flags.
    pub(super) fn flags(&mut self, args: &SettingsArgs) {
        let path = |path: &PathBuf, name| given(path, Source::Flag(name));
        self.lay(args.data.data.as_ref().map(|data| ("data", path(data, "--data"))));
        self.lay(args.policy.as_ref().map(|policy| ("policy", path(policy, "--policy"))));
        let cert = args.tls_cert.as_ref().map(|file| ("tls.cert", path(file, "--tls-cert")));
        let key = args.tls_key.as_ref().map(|file| ("tls.key", path(file, "--tls-key")));
        self.lay(cert.into_iter().chain(key));
        for (name, flag, value) in [
            ("store", "--store", &args.store),
            ("role", "--role", &args.role),
            ("listen", "--listen", &args.listen),
            ("bus", "--bus", &args.bus),
            ("redis", "--redis", &args.redis),
            ("log.level", "--log-level", &args.log_level),
            ("log.format", "--log-format", &args.log_format),
        ] {
            let given = |text: &String| {
                (name, Given { values: vec![text.clone()], source: Source::Flag(flag) })
            };
            self.lay(value.as_ref().map(given));
        }
        if args.insecure_allow_remote {
            let source = Source::Flag("--insecure-allow-remote");
            self.lay([("insecure_allow_remote", Given { values: vec!["true".into()], source })]);
        }
        if !args.allow_missing.is_empty() {
            let values = args.allow_missing.iter().map(|wall| wall.name().to_owned()).collect();
            let given = Given { values, source: Source::Flag("--allow-missing") };
            self.lay([("sandbox.allow_missing", given)]);
        }
        if !args.skills.is_empty() {
            let values = args.skills.iter().map(|path| text(path)).collect();
            self.lay([("skills", Given { values, source: Source::Flag("--skills") })]);
        }
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = (&Key, &Given)> {
        self.rows.iter().map(|(key, given)| (key, given))
    }

    /// The value of a setting; every name in the code is in the table.
    pub(super) fn get(&self, name: &str) -> &Given {
        let row = self.rows.iter().find(|(key, _)| key.name == name);
        &row.expect("a name of the table, as a test checks").1
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.get(name).values.first().map(PathBuf::from).unwrap_or_default()
    }
}

fn given(path: &Path, source: Source) -> Given {
    Given { values: vec![text(path)], source }
}

/// A path as text; one that is not UTF-8 is shown as far as possible, and opening it then fails.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
