//! Settings from a TOML file.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use ringfence_types::nearest;
use toml::{Table, Value};

use super::{
    keys::{self, Host, Key},
    layers::{Given, Source},
};
use crate::problems::Problems;

/// Maximum bytes of a settings file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Path of the settings file, and whether it must exist.
#[derive(Debug)]
pub(super) struct FilePlace {
    path: PathBuf,
    is_named: bool,
}

/// The named file, else the one in the data directory if it exists.
pub(super) fn find(named: Option<PathBuf>, data: &Path) -> Option<FilePlace> {
    if let Some(path) = named {
        return Some(FilePlace { path, is_named: true });
    }
    let path = data.join("ringfence.toml");
    path.exists().then_some(FilePlace { path, is_named: false })
}

/// Content of a settings file.
#[derive(Debug, Default)]
pub(super) struct FileSettings {
    /// Settings of the table of all settings.
    pub(super) settings: Vec<(&'static str, Given)>,
    /// Tables of `policy`, and their file.
    pub(super) policy: Option<(Table, PathBuf)>,
}

/// All settings of the file.
pub(super) fn read(place: Option<&FilePlace>, problems: &mut Problems) -> FileSettings {
    let Some(place) = place else { return FileSettings::default() };
    let shown = place.path.display();
    let text = content(&place.path).map_err(|error| format!("{shown}: {error}"));
    let table = text.and_then(|text| {
        text.parse::<Table>().map_err(|error| format!("{shown}: {}", place_of(&text, &error)))
    });
    let Some(table) = problems.keep(table) else { return FileSettings::default() };
    let (keys, found) = (keys::all(Host::this()), FileSettings::default());
    let mut reading = Reading { place, keys, found, problems };
    reading.table(&table, "");
    reading.found
}

pub(super) fn content(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MAX_FILE_BYTES {
        true => Err(io::Error::other("larger than 1 MiB")),
        false => Ok(text),
    }
}

/// The error with its line, in one line.
fn place_of(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map_or(1, |before| before.matches('\n').count() + 1);
    format!("line {line}: {}", error.message().replace('\n', ", "))
}

struct Reading<'a> {
    place: &'a FilePlace,
    keys: Vec<Key>,
    found: FileSettings,
    problems: &'a mut Problems,
}

impl Reading<'_> {
    fn table(&mut self, table: &Table, prefix: &str) {
        for (name, value) in table {
            let name = format!("{prefix}{name}");
            let key = self.keys.iter().find(|key| key.name == name);
            match (key.map(|key| (key.name, key.is_list)), value) {
                (Some(("policy", _)), Value::Table(tables)) => self.policy(tables),
                (Some((key, is_list)), value) => self.setting(key, is_list, value),
                (None, Value::Table(inner)) if self.is_group(&name) => {
                    self.table(inner, &format!("{name}."));
                }
                (None, _) => self.unknown(&name),
            }
        }
    }

    /// Reads `policy`: a folder alone is a setting like others; tables have names chosen by the
    /// operator.
    fn policy(&mut self, tables: &Table) {
        if let Some(folder) = tables.get("folder") {
            self.setting("policy", false, folder);
        }
        self.found.policy = Some((tables.clone(), self.place.path.clone()));
    }

    fn is_group(&self, name: &str) -> bool {
        let prefix = format!("{name}.");
        self.keys.iter().any(|key| key.name.starts_with(&prefix))
    }

    fn setting(&mut self, key: &'static str, is_list: bool, value: &Value) {
        if key == "data" && !self.place.is_named {
            return self.problem("data: this file was found through it; use --data".to_owned());
        }
        let values = match value {
            Value::Array(items) if is_list => items.iter().map(plain).collect(),
            one => plain(one).map(|text| vec![text]),
        };
        match values {
            Some(values) => {
                let source = Source::File(self.place.path.clone());
                self.found.settings.push((key, Given { values, source }));
            }
            None => {
                let wanted = if is_list { "a list of text" } else { "text or a number" };
                self.problem(format!("{key}: a {} is not {wanted}", value.type_str()));
            }
        }
    }

    fn unknown(&mut self, name: &str) {
        let shown: String = name.chars().take(100).collect();
        match nearest(name, self.keys.iter().map(|key| key.name)) {
            Some(meant) => {
                self.problem(format!("`{shown}` is no setting; did you mean `{meant}`?"));
            }
            None => self.problem(format!("`{shown}` is no setting")),
        }
    }

    fn problem(&mut self, text: String) {
        self.problems.add(format!("{}: {text}", self.place.path.display()));
    }
}

/// Text, numbers and booleans as text.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(truth) => Some(truth.to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn from(text: &str) -> (Vec<(&'static str, Given)>, Option<String>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ringfence.toml");
        std::fs::write(&path, text).unwrap();
        let mut problems = Problems::default();
        let found = read(find(None, dir.path()).as_ref(), &mut problems);
        let shown = format!("{}: ", path.display());
        let told = problems.none().err().map(|failure| failure.text().replace(&shown, ""));
        (found.settings, told)
    }

    #[test]
    fn tables_lists_and_numbers_are_read() {
        let (found, problems) =
            from("listen = \"127.0.0.1:1\"\nskills = [\"a\", \"b\"]\n[calls]\nrunning = 3\n");
        assert_eq!(problems, None);
        let values: Vec<_> =
            found.iter().map(|(name, given)| (*name, given.values.join(" "))).collect();
        let wanted = [("calls.running", "3"), ("listen", "127.0.0.1:1"), ("skills", "a b")];
        assert_eq!(values, wanted.map(|(name, value)| (name, value.to_owned())));
    }

    #[test]
    fn all_problems_of_a_file_are_named_at_once() {
        let (_, problems) = from(
            "lisen = 1\ndata = \"x\"\nthreads = 1979-05-27\n[log]\nlevle = \"x\"\n[other]\nx = 1\n",
        );
        let told = "error: 5 problems with the request\n  \
            data: this file was found through it; use --data\n  \
            `lisen` is no setting; did you mean `listen`?\n  \
            `log.levle` is no setting; did you mean `log.level`?\n  \
            `other` is no setting\n  \
            threads: a datetime is not text or a number\n";
        assert_eq!(problems.as_deref(), Some(told));
    }

    #[test]
    fn a_file_that_is_not_toml_is_told_with_its_line() {
        let (_, problems) = from("listen = \"x\"\nthis is not toml\n");
        assert!(problems.as_deref().unwrap_or_default().contains("line 2"), "{problems:?}");
    }

    proptest! {
        #[test]
        fn no_file_panics(text in "[a-z.=\\[\\]\"'#\n 0-9{},]{0,120}") {
            let _ = from(&text);
        }
    }
}
