//! YAML as a bounded tree.
//!
//! Aliases multiply: a few lines can mean a billion values. The tree is therefore built under a
//! budget of values, characters and depth, and abandoned once one is exceeded.

use std::{cell::Cell, collections::HashSet, fmt};

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::text::shown;

/// Size limit of a file.
pub(super) const MAX_BYTES: usize = 64 << 10;
/// Values, keys included, after aliases are expanded.
const MAX_VALUES: usize = 10_000;
/// Bytes of text after aliases are expanded.
const MAX_TEXT_BYTES: usize = 256 << 10;
/// Nesting limit.
const MAX_DEPTH: usize = 24;

/// YAML value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Yaml {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Yaml>),
    /// Entries in source order; no key twice.
    Map(Vec<(String, Yaml)>),
}

impl Yaml {
    /// Name of the kind of value, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Yaml::Null => "nothing",
            Yaml::Bool(_) => "true or false",
            Yaml::Number(_) => "a number",
            Yaml::Text(_) => "text",
            Yaml::List(_) => "a list",
            Yaml::Map(_) => "a mapping",
        }
    }
}

/// Parses one document.
pub(super) fn parse(bytes: &[u8]) -> Result<Yaml, String> {
    if bytes.len() > MAX_BYTES {
        return Err(format!("larger than {} KiB", MAX_BYTES >> 10));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())?;
    parse_within(text, &Bounds { values: MAX_VALUES, text: MAX_TEXT_BYTES, depth: MAX_DEPTH })
}

/// Bounds of a tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Values, keys included, after aliases are expanded.
    pub(crate) values: usize,
    /// Bytes of text after aliases are expanded.
    pub(crate) text: usize,
    /// Nesting.
    pub(crate) depth: usize,
}

/// Parses one document within bounds.
pub(crate) fn parse_within(text: &str, bounds: &Bounds) -> Result<Yaml, String> {
    check_brackets(text)?;
    let budget = Budget {
        values: Cell::new(bounds.values),
        text: Cell::new(bounds.text),
        depth: bounds.depth,
    };
    let seed = Seed { budget: &budget, depth: 0 };
    seed.deserialize(serde_norway::Deserializer::from_str(text)).map_err(|error| error.to_string())
}

/// Refuses text with too many brackets: the scanner's time grows with the square of open brackets,
/// before any tree is built.
fn check_brackets(text: &str) -> Result<(), String> {
    let mut open = 0_usize;
    for byte in text.bytes() {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        if open > 1_000 {
            return Err("too many open brackets".to_owned());
        }
    }
    Ok(())
}

struct Budget {
    values: Cell<usize>,
    text: Cell<usize>,
    depth: usize,
}

impl Budget {
    fn spend(cell: &Cell<usize>, amount: usize) -> bool {
        let left = cell.get().checked_sub(amount);
        cell.set(left.unwrap_or(0));
        left.is_some()
    }
}

#[derive(Clone, Copy)]
struct Seed<'a> {
    budget: &'a Budget,
    depth: usize,
}

impl Seed<'_> {
    fn deeper<E: de::Error>(self) -> Result<Self, E> {
        let most = self.budget.depth;
        if self.depth == most {
            return Err(E::custom(format_args!("nested deeper than {most}")));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }

    fn text<E: de::Error>(self, text: &str) -> Result<Yaml, E> {
        if Budget::spend(&self.budget.text, text.len()) {
            Ok(Yaml::Text(text.to_owned()))
        } else {
            Err(E::custom("too much text after aliases are followed"))
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Yaml;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Yaml, D::Error> {
        if !Budget::spend(&self.budget.values, 1) {
            return Err(de::Error::custom("too many values after aliases are followed"));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Yaml;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("plain YAML without tags")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Yaml, E> {
        Ok(Yaml::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Yaml, E> {
        Ok(Yaml::Bool(value))
    }

    // Every number of a manifest is small; beyond 2^53 the rounding is out of every range anyway.
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Yaml, E> {
        Ok(Yaml::Number(value as f64))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Yaml, E> {
        Ok(Yaml::Number(value as f64))
    }

    fn visit_i128<E: de::Error>(self, value: i128) -> Result<Yaml, E> {
        Ok(Yaml::Number(value as f64))
    }

    fn visit_u128<E: de::Error>(self, value: u128) -> Result<Yaml, E> {
        Ok(Yaml::Number(value as f64))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Yaml, E> {
        Ok(Yaml::Number(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Yaml, E> {
        self.text(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Yaml, A::Error> {
        let inner = self.deeper()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            list.push(item);
        }
        Ok(Yaml::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Yaml, A::Error> {
        let inner = self.deeper()?;
        let mut seen = HashSet::new();
        let mut map = Vec::new();
        while let Some(key) = entries.next_key_seed(inner)? {
            let key = key_text(key).ok_or_else(|| de::Error::custom("a key that is not text"))?;
            if !seen.insert(key.clone()) {
                let problem = format_args!("the key `{}` appears twice", shown(&key)).to_string();
                return Err(de::Error::custom(problem));
            }
            map.push((key, entries.next_value_seed(inner)?));
        }
        Ok(Yaml::Map(map))
    }
}

fn key_text(key: Yaml) -> Option<String> {
    match key {
        Yaml::Text(text) => Some(text),
        Yaml::Bool(value) => Some(value.to_string()),
        Yaml::Number(value) => Some(value.to_string()),
        _ => None,
    }
}
