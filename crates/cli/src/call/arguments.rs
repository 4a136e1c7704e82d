//! Arguments on the command line: `name=value` typed by the tool's schema, `name:=JSON` verbatim.

use std::{
    collections::BTreeMap,
    io::{Read, Stdin},
};

use serde_json::{Value, value::RawValue};

use crate::{
    cli::CallArgs,
    client::{Client, escaped},
    failure::Failure,
    problems::Problems,
};

/// Maximum bytes of arguments that are read; servers accept less.
const MAX_ARGUMENTS_BYTES: u64 = 64 << 20;

/// Arguments as given.
#[derive(Debug)]
pub(super) enum Arguments {
    /// One JSON object.
    Whole(Box<RawValue>),
    /// Arguments by name.
    Named(Vec<Word>),
}

/// One argument.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) name: String,
    value: String,
    is_json: bool,
}

impl Arguments {
    pub(super) fn read(args: &CallArgs, input: Stdin) -> Result<Self, Failure> {
        if let Some(json) = &args.args {
            return whole("--args", json);
        }
        if args.values == ["-"] {
            let mut text = String::new();
            let read = input.take(MAX_ARGUMENTS_BYTES).read_to_string(&mut text);
            read.map_err(|error| Failure::because("read the arguments", &error))?;
            return whole("standard input", &text);
        }
        let mut problems = Problems::default();
        let words = args.values.iter().filter_map(|word| problems.keep(split(word))).collect();
        problems.hint("write name=value, or name:=JSON, or all of them with --args '{...}'");
        problems.none()?;
        Ok(Self::Named(words))
    }

    /// The arguments as one object. Asks the server for the tool's schema if that is needed.
    pub(super) async fn typed(
        self,
        client: &Client,
        tool: &str,
        version: Option<&str>,
    ) -> Result<Box<RawValue>, Failure> {
        let words = match self {
            Self::Whole(object) => return Ok(object),
            Self::Named(words) => words,
        };
        let schema = schema(client, &words, tool, version).await?;
        object(&words, &schema)
    }
}

/// The schema that types the arguments; null if each is JSON already.
pub(crate) async fn schema(
    client: &Client,
    words: &[Word],
    tool: &str,
    version: Option<&str>,
) -> Result<Value, Failure> {
    if words.iter().all(|word| word.is_json) {
        return Ok(Value::Null);
    }
    let version = version.map(|version| format!("?version={}", escaped(version)));
    let path = format!("/v1/tools/{}{}", escaped(tool), version.unwrap_or_default());
    Ok(client.get::<Value>(&path).await?["parameters"].take())
}

fn whole(from: &str, json: &str) -> Result<Arguments, Failure> {
    let object: Box<RawValue> = serde_json::from_str(json)
        .map_err(|error| Failure::because(format!("{from} is not JSON"), &error))?;
    match object.get().starts_with('{') {
        true => Ok(Arguments::Whole(object)),
        false => Err(Failure::new(format!("{from} is not a JSON object"))),
    }
}

/// The name, the value and the form of `name=value` or `name:=JSON`.
pub(crate) fn split(word: &str) -> Result<Word, String> {
    let (name, value) =
        word.split_once('=').ok_or_else(|| format!("`{word}` is not name=value"))?;
    let (name, is_json) = match name.strip_suffix(':') {
        Some(name) => (name, true),
        None => (name, false),
    };
    match name.is_empty() {
        true => Err(format!("`{word}` has no name")),
        false => Ok(Word { name: name.to_owned(), value: value.to_owned(), is_json }),
    }
}

fn object(words: &[Word], schema: &Value) -> Result<Box<RawValue>, Failure> {
    let mut problems = Problems::default();
    let mut fields = BTreeMap::new();
    for word in words {
        let Some(json) = problems.keep(json(word, schema)) else { continue };
        if fields.insert(word.name.as_str(), json).is_some() {
            problems.add(format!("`{}` is there twice", word.name));
        }
    }
    problems.none()?;
    serde_json::value::to_raw_value(&fields)
        .map_err(|error| Failure::because("cannot write the arguments", &error))
}

/// A value in the type that the schema names; text without one.
pub(crate) fn json(word: &Word, schema: &Value) -> Result<Box<RawValue>, String> {
    let raw = |text: &str| serde_json::from_str::<Box<RawValue>>(text);
    let wrong = |what: &str| format!("{}: `{}` is not {what}", word.name, word.value);
    let text = || serde_json::value::to_raw_value(&word.value).map_err(|e| e.to_string());
    if word.is_json {
        return raw(&word.value).map_err(|error| format!("{}: {error}", word.name));
    }
    let wanted = &schema["properties"][&word.name]["type"];
    let check = |fits: fn(&Value) -> bool, what| {
        let value = serde_json::from_str::<Value>(&word.value).ok().filter(fits);
        value.and_then(|_| raw(&word.value).ok()).ok_or_else(|| wrong(what))
    };
    match wanted.as_str() {
        Some("integer") => check(|v| v.is_i64() || v.is_u64(), "a whole number"),
        Some("number") => check(Value::is_number, "a number"),
        Some("boolean") => check(Value::is_boolean, "true or false"),
        Some("object") => check(Value::is_object, "a JSON object"),
        Some("array") => check(Value::is_array, "a JSON list such as [\"a\", \"b\"]"),
        Some("null") => check(Value::is_null, "null"),
        Some(_) => text(),
        None => match takes_text(wanted) {
            true => text(),
            false => raw(&word.value).or_else(|_| text()),
        },
    }
}

/// Whether text is among several types.
fn takes_text(wanted: &Value) -> bool {
    let types = wanted.as_array();
    types.is_some_and(|types| types.iter().any(|kind| kind == "string"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn typed(words: &[&str]) -> Result<String, String> {
        let schema = json!({"properties": {
            "count": {"type": "integer"}, "ratio": {"type": "number"}, "flag": {"type": "boolean"},
            "text": {"type": "string"}, "list": {"type": "array"}, "any": {},
            "maybe": {"type": ["string", "null"]},
        }});
        let words: Vec<_> = words.iter().map(|word| split(word).unwrap()).collect();
        object(&words, &schema).map(|raw| raw.get().to_owned()).map_err(|failure| failure.text())
    }

    #[test]
    fn values_get_the_type_of_the_schema() {
        let object = typed(&[
            "count=3",
            "ratio=1.50",
            "flag=true",
            "text=12",
            "list=[1]",
            "any={\"a\":1}",
            "maybe=7",
            "other=x=y",
            "exact:=1e400",
        ]);
        let wanted = r#"{"any":{"a":1},"count":3,"exact":1e400,"flag":true,"list":[1],"maybe":"7","other":"x=y","ratio":1.50,"text":"12"}"#;
        assert_eq!(object.as_deref(), Ok(wanted));
    }

    #[test]
    fn all_values_that_do_not_fit_are_named_at_once() {
        let told = typed(&["count=x", "flag=maybe", "list=a", "text=a", "text=b", "bad:={"]);
        let wanted = "error: 5 problems with the request\n  \
            count: `x` is not a whole number\n  \
            flag: `maybe` is not true or false\n  \
            list: `a` is not a JSON list such as [\"a\", \"b\"]\n  \
            `text` is there twice\n  \
            bad: EOF while parsing an object at line 1 column 1\n";
        assert_eq!(told.unwrap_err(), wanted);
    }

    #[test]
    fn a_word_without_name_or_value_is_refused() {
        assert!(split("word").is_err());
        assert!(split("=x").is_err());
        assert!(split(":=x").is_err());
        assert_eq!(split("a=").unwrap().value, "");
    }
}
