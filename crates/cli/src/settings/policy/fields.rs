//! One table of the file: known fields are read, unknown ones are problems.

use std::path::Path;

use reqwest::Url;
use ringfence_types::nearest;
use toml::{Table, Value};

use crate::problems::Problems;

pub(super) struct Fields<'a> {
    /// Full name of the table.
    place: String,
    table: &'a Table,
    file: &'a Path,
    problems: &'a mut Problems,
    /// Names of known fields.
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(
        place: &str,
        table: &'a Table,
        file: &'a Path,
        problems: &'a mut Problems,
    ) -> Self {
        Self { place: place.to_owned(), table, file, problems, known: Vec::new() }
    }

    pub(super) fn knows(&mut self, name: &'static str) {
        self.known.push(name);
    }

    /// The value of a field; none if it is missing, or invalid, which is reported.
    pub(super) fn optional<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&Value) -> Result<T, String>,
    ) -> Option<T> {
        self.knows(name);
        match parse(self.table.get(name)?) {
            Ok(value) => Some(value),
            Err(problem) => self.problem(name, &problem),
        }
    }

    pub(super) fn required<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&Value) -> Result<T, String>,
    ) -> Option<T> {
        if !self.table.contains_key(name) {
            self.knows(name);
            return self.problem(name, "is missing");
        }
        self.optional(name, parse)
    }

    /// A list of text; every invalid item is reported.
    pub(super) fn list<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let items = self.optional(name, |value| match value {
            Value::Array(items) => items.iter().map(text).collect::<Result<Vec<_>, _>>(),
            _ => Err("is not a list of text".to_owned()),
        })?;
        let read = |item: String| match parse(&item) {
            Ok(value) => Some(value),
            Err(problem) => self.problem(name, &problem),
        };
        Some(items.into_iter().filter_map(read).collect())
    }

    /// A nested table.
    pub(super) fn table<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(Fields<'_>) -> T,
    ) -> Option<T> {
        self.knows(name);
        match self.table.get(name)? {
            Value::Table(table) => {
                let place = format!("{}.{name}", self.place);
                Some(read(Fields::new(&place, table, self.file, self.problems)))
            }
            _ => self.problem(name, "is not a table"),
        }
    }

    /// Nested tables, by names chosen by the operator.
    pub(super) fn tables_by_name<T>(
        &mut self,
        name: &'static str,
        read: impl Fn(&str, Fields<'_>) -> Option<T>,
    ) -> Vec<T> {
        let all = self.table(name, |mut fields| {
            let mut found = Vec::new();
            for (inner, value) in fields.table {
                let Value::Table(table) = value else {
                    fields.other(inner, "is not a table");
                    continue;
                };
                let place = format!("{}.{inner}", fields.place);
                let within = Fields::new(&place, table, fields.file, fields.problems);
                found.extend(read(inner, within));
            }
            found
        });
        all.unwrap_or_default()
    }

    /// A list of nested tables.
    pub(super) fn tables<T>(
        &mut self,
        name: &'static str,
        read: impl Fn(Fields<'_>) -> Option<T>,
    ) -> Vec<T> {
        self.knows(name);
        let items = match self.table.get(name) {
            None => return Vec::new(),
            Some(Value::Array(items)) if items.iter().all(Value::is_table) => items,
            Some(_) => {
                let words = format!("is not a list of tables: [[{}.{name}]]", self.place);
                let _: Option<()> = self.problem(name, &words);
                return Vec::new();
            }
        };
        let mut found = Vec::new();
        for (index, table) in items.iter().filter_map(Value::as_table).enumerate() {
            let place = format!("{}.{name}[{index}]", self.place);
            found.extend(read(Fields::new(&place, table, self.file, self.problems)));
        }
        found
    }

    /// Reports a problem of a field.
    pub(super) fn problem<T>(&mut self, name: &str, words: &str) -> Option<T> {
        self.other(name, words);
        None
    }

    /// Reports unknown fields.
    pub(super) fn finish(mut self) {
        let known = std::mem::take(&mut self.known);
        for name in self.table.keys().filter(|name| !known.contains(&name.as_str())) {
            let shown: String = name.chars().take(100).collect();
            let words = match nearest(name, known.iter().copied()) {
                Some(meant) => format!("is no setting; did you mean `{meant}`?"),
                None => "is no setting".to_owned(),
            };
            self.other(&shown, &words);
        }
    }

    fn other(&mut self, name: &str, words: &str) {
        self.problems.add(format!("{}: {}.{name}: {words}", self.file.display(), self.place));
    }
}

pub(super) fn text(value: &Value) -> Result<String, String> {
    match value.as_str() {
        Some("") => Err("is empty".to_owned()),
        Some(text) => Ok(text.to_owned()),
        None => Err("is not text".to_owned()),
    }
}

pub(super) fn truth(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "is neither true nor false".to_owned())
}

/// URL without credentials: it is shown and logged, so secrets belong into files.
pub(super) fn address(value: &Value) -> Result<Url, String> {
    let url = Url::parse(&text(value)?).ok();
    match url.filter(|url| matches!(url.scheme(), "http" | "https")) {
        Some(url) if !url.username().is_empty() || url.password().is_some() => {
            Err("an address with a name or a password; use `token_file`".to_owned())
        }
        Some(url) => Ok(url),
        None => Err("is not an address such as http://127.0.0.1:8181".to_owned()),
    }
}
