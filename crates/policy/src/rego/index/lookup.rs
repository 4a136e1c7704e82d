//! Lookup of the rules that may apply to a document.

use std::collections::HashMap;

use regorus::Value;

use super::guard::{Guard, Test};

/// Different lengths of prefixes or suffixes at one path: each length is tried.
const MAX_LENGTHS: usize = 16;

/// Number of a rule that may be left out.
pub(super) type Number = u32;

/// Rules by their guards, path by path.
#[derive(Debug, Default)]
pub(super) struct Lookup {
    places: Vec<Place>,
}

#[derive(Debug, Default)]
struct Place {
    path: Vec<Value>,
    is: Numbers,
    holds: Numbers,
    begins: Affixes,
    ends: Affixes,
}

type Numbers = HashMap<String, Vec<Number>>;

#[derive(Debug, Default)]
struct Affixes {
    numbers: Numbers,
    lengths: Vec<usize>,
}

impl Lookup {
    /// Adds a rule; false if it cannot be looked up.
    pub(super) fn add(&mut self, number: Number, guard: &Guard) -> bool {
        let place = self.place(&guard.path);
        match &guard.test {
            Test::Is(texts) => {
                texts.iter().for_each(|text| put(&mut place.is, text, number));
                true
            }
            Test::Holds(text) => {
                put(&mut place.holds, text, number);
                true
            }
            Test::Begins(text) => place.begins.add(text, number),
            Test::Ends(text) => place.ends.add(text, number),
        }
    }

    fn place(&mut self, path: &[String]) -> &mut Place {
        let path: Vec<_> = path.iter().map(|name| Value::from(name.as_str())).collect();
        let known = self.places.iter().position(|place| place.path == path);
        let index = known.unwrap_or_else(|| {
            self.places.push(Place { path, ..Place::default() });
            self.places.len() - 1
        });
        &mut self.places[index]
    }

    /// Rules whose guard is true, ascending; `None` if a guard may make the evaluation fail.
    pub(super) fn find(&self, document: &Value) -> Option<Vec<Number>> {
        let mut found = Vec::new();
        for place in &self.places {
            let value = place.path.iter().fold(document, |value, name| &value[name]);
            place.find(value, &mut found)?;
        }
        found.sort_unstable();
        found.dedup();
        Some(found)
    }
}

impl Place {
    fn find(&self, value: &Value, found: &mut Vec<Number>) -> Option<()> {
        match value {
            Value::Undefined => {}
            Value::String(text) => {
                found.extend(self.is.get(text.as_ref()).into_iter().flatten());
                let cut = |length| text.get(..length);
                self.begins.find(cut, found);
                let cut = |length| text.get(text.len().checked_sub(length)?..);
                self.ends.find(cut, found);
            }
            _ if !self.begins.lengths.is_empty() || !self.ends.lengths.is_empty() => return None,
            Value::Array(items) => self.hold(items.iter(), found),
            Value::Object(fields) => self.hold(fields.values(), found),
            // A document has no sets.
            Value::Set(_) => return None,
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        Some(())
    }

    fn hold<'v>(&self, items: impl Iterator<Item = &'v Value>, found: &mut Vec<Number>) {
        if self.holds.is_empty() {
            return;
        }
        for item in items {
            if let Value::String(text) = item {
                found.extend(self.holds.get(text.as_ref()).into_iter().flatten());
            }
        }
    }
}

impl Affixes {
    fn add(&mut self, text: &str, number: Number) -> bool {
        if !self.lengths.contains(&text.len()) {
            if self.lengths.len() >= MAX_LENGTHS {
                return false;
            }
            self.lengths.push(text.len());
        }
        put(&mut self.numbers, text, number);
        true
    }

    fn find<'t>(&self, cut: impl Fn(usize) -> Option<&'t str>, found: &mut Vec<Number>) {
        for affix in self.lengths.iter().filter_map(|length| cut(*length)) {
            found.extend(self.numbers.get(affix).into_iter().flatten());
        }
    }
}

fn put(numbers: &mut Numbers, text: &str, number: Number) {
    numbers.entry(text.to_owned()).or_default().push(number);
}
