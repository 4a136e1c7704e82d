//! Bindings: places of a plan that take values of earlier steps when they run.
//!
//! `${steps.a.outputs.x}`, `${steps.a.files['out.csv']}`, and in a fan-out `${item}`, `${item.x}` and
//! `${index}`. A text that is one binding becomes its value; within a longer text the value is written out.
//! Other text with `${` stays as it is, because shells and templates use it too; `$${` is a plain `${`.

use serde_json::Value;

/// Source of a bound value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// Value in the outputs of a step.
    Output { step: String, path: Vec<Key> },
    /// File that a step left.
    File { step: String, path: String },
    /// Item of the fan-out, or a value in it.
    Item { path: Vec<Key> },
    /// Number of the item, from 0.
    Index,
}

/// One step into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    Name(String),
    Index(usize),
}

/// Part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    Bound(Source),
}

const BEGINNINGS: [&str; 4] = ["steps.", "item.", "item[", "steps["];

/// Parts of a text, or what is wrong with a binding in it.
pub(crate) fn parts(text: &str) -> Result<Vec<Part>, String> {
    let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find("${") {
        let inside = &rest[at + 2..];
        if rest[..at].ends_with('$') {
            plain.push_str(&rest[..at - 1]);
            plain.push_str("${");
            rest = inside;
            continue;
        }
        plain.push_str(&rest[..at]);
        if !is_ours(inside) {
            plain.push_str("${");
            rest = inside;
            continue;
        }
        let end = end_of(inside).ok_or_else(|| format!("`${{{}` has no end", cut(inside)))?;
        if !plain.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut plain)));
        }
        parts.push(Part::Bound(source(&inside[..end])?));
        rest = &inside[end + 1..];
    }
    plain.push_str(rest);
    if !plain.is_empty() || parts.is_empty() {
        parts.push(Part::Text(plain));
    }
    Ok(parts)
}

fn is_ours(inside: &str) -> bool {
    BEGINNINGS.iter().any(|beginning| inside.starts_with(beginning))
        || inside.starts_with("item}")
        || inside.starts_with("index}")
}

/// Position of the closing brace, outside of quotes.
fn end_of(inside: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in inside.char_indices() {
        match (quote, c) {
            (None, '}') => return Some(at),
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
    }
    None
}

fn source(text: &str) -> Result<Source, String> {
    let wrong = |rule: &str| format!("`${{{}}}`: {rule}", cut(text));
    let keys = keys(text).map_err(|rule| wrong(&rule))?;
    let mut keys = keys.into_iter();
    let first = match keys.next() {
        Some(Key::Name(name)) => name,
        _ => return Err(wrong("begins with `steps`, `item` or `index`")),
    };
    match first.as_str() {
        "item" => return Ok(Source::Item { path: keys.collect() }),
        "index" => return Ok(Source::Index),
        _ => {}
    }
    let Some(Key::Name(step)) = keys.next() else {
        return Err(wrong("names a step, as in `${steps.a.outputs.x}`"));
    };
    match keys.next() {
        Some(Key::Name(part)) if part == "outputs" => {
            Ok(Source::Output { step, path: keys.collect() })
        }
        Some(Key::Name(part)) if part == "files" => match (keys.next(), keys.next()) {
            (Some(Key::Name(path)), None) => Ok(Source::File { step, path }),
            _ => Err(wrong("names one file, as in `${steps.a.files['out.csv']}`")),
        },
        _ => Err(wrong("goes on with `outputs` or `files`")),
    }
}

/// `a.b[0]['c']` as keys.
fn keys(text: &str) -> Result<Vec<Key>, String> {
    let (mut keys, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let quote = inside.chars().next().filter(|c| matches!(c, '\'' | '"'));
            let (key, after) = match quote {
                Some(quote) => {
                    let inside = &inside[1..];
                    let end = inside.find(quote).ok_or("has a quote without an end")?;
                    (Key::Name(inside[..end].to_owned()), &inside[end + 1..])
                }
                None => {
                    let end = inside.find(']').ok_or("has a bracket without an end")?;
                    let number = inside[..end].parse();
                    let number =
                        number.map_err(|_| "has neither a number nor a quoted name in brackets")?;
                    (Key::Index(number), &inside[end..])
                }
            };
            keys.push(key);
            rest = after.strip_prefix(']').ok_or("has a bracket without an end")?;
            continue;
        }
        let named = if keys.is_empty() { rest } else { rest.strip_prefix('.').unwrap_or("") };
        let end = named.find(['.', '[']).unwrap_or(named.len());
        let name = &named[..end];
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$');
        if name.is_empty() || !name.chars().all(is_name) {
            return Err("has an empty or odd name; other names go into `['…']`".to_owned());
        }
        keys.push(Key::Name(name.to_owned()));
        rest = &named[end..];
    }
    Ok(keys)
}

fn cut(text: &str) -> String {
    text.chars().take(60).collect()
}

/// All sources in a tree, with the pointers of their places; texts that cannot be read are problems.
pub(crate) fn sources(tree: &Value, at: &str, found: &mut Found) {
    match tree {
        Value::String(text) => match parts(text) {
            Ok(parts) => {
                let is_whole = parts.len() == 1;
                for part in parts {
                    if let Part::Bound(source) = part {
                        found.bound.push(Bound { at: at.to_owned(), source, is_whole });
                    }
                }
            }
            Err(problem) => found.problems.push((at.to_owned(), problem)),
        },
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                sources(item, &format!("{at}/{index}"), found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                sources(field, &format!("{at}/{}", escaped(name)), found);
            }
        }
        _ => {}
    }
}

/// Bindings of a tree.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) bound: Vec<Bound>,
    pub(crate) problems: Vec<(String, String)>,
}

/// A binding at its place.
#[derive(Debug)]
pub(crate) struct Bound {
    /// JSON pointer of the text.
    pub(crate) at: String,
    pub(crate) source: Source,
    /// Whether the text is this binding alone, so that its type is kept.
    pub(crate) is_whole: bool,
}

/// A name as part of a JSON pointer.
pub(crate) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The tree with all bindings replaced.
pub(crate) fn resolve(
    tree: &Value,
    value_of: &dyn Fn(&Source) -> Result<Value, String>,
) -> Result<Value, String> {
    Ok(match tree {
        Value::String(text) => {
            let parts = parts(text)?;
            if let [Part::Bound(source)] = parts.as_slice() {
                return value_of(source);
            }
            let mut whole = String::new();
            for part in parts {
                match part {
                    Part::Text(text) => whole.push_str(&text),
                    Part::Bound(source) => match value_of(&source)? {
                        Value::String(text) => whole.push_str(&text),
                        other => whole.push_str(&other.to_string()),
                    },
                }
            }
            Value::String(whole)
        }
        Value::Array(items) => {
            items.iter().map(|item| resolve(item, value_of)).collect::<Result<_, _>>()?
        }
        Value::Object(fields) => {
            let resolved = |(name, field): (&String, &Value)| {
                Ok::<_, String>((name.clone(), resolve(field, value_of)?))
            };
            Value::Object(fields.iter().map(resolved).collect::<Result<_, _>>()?)
        }
        other => other.clone(),
    })
}

/// The value at a path.
pub(crate) fn at_path<'a>(value: &'a Value, path: &[Key]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| match key {
        Key::Name(name) => value.get(name),
        Key::Index(index) => value.get(index),
    })
}

/// A path as it is written.
pub(crate) fn path_text(path: &[Key]) -> String {
    path.iter().fold(String::new(), |text, key| match key {
        Key::Name(name) => format!("{text}.{name}"),
        Key::Index(index) => format!("{text}[{index}]"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn name(name: &str) -> Key {
        Key::Name(name.to_owned())
    }

    #[test]
    fn bindings_are_read_and_other_text_stays() {
        let output = |step: &str, path| Part::Bound(Source::Output { step: step.into(), path });
        let text = |text: &str| Part::Text(text.to_owned());
        assert_eq!(
            parts("n=${steps.a-1.outputs.x[0]['y.z']};").unwrap(),
            [text("n="), output("a-1", vec![name("x"), Key::Index(0), name("y.z")]), text(";")]
        );
        let file = Source::File { step: "a".to_owned(), path: "o}ut.csv".to_owned() };
        assert_eq!(parts("${steps.a.files['o}ut.csv']}").unwrap(), [Part::Bound(file)]);
        let item = |path| Part::Bound(Source::Item { path });
        assert_eq!(
            parts("${item}${item.x}${index}").unwrap(),
            [item(vec![]), item(vec![name("x")]), Part::Bound(Source::Index)]
        );
        for plain in ["${HOME}", "$", "${", "a ${itemised} b", ""] {
            assert_eq!(parts(plain).unwrap(), [text(plain)], "{plain}");
        }
        assert_eq!(parts("$${steps.a.outputs.x}").unwrap(), [text("${steps.a.outputs.x}")]);
    }

    #[test]
    fn wrong_bindings_are_problems() {
        for wrong in [
            "${steps.a}",
            "${steps.a.outputs.x",
            "${steps.a.inputs.x}",
            "${steps.a.files.x.y}",
            "${steps..outputs.x}",
            "${steps.a.outputs[x]}",
        ] {
            assert!(parts(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn one_binding_keeps_its_type_and_others_become_text() {
        let tree = json!({"a": "${steps.s.outputs.n}", "b": ["n is ${steps.s.outputs.n}"]});
        let resolved = resolve(&tree, &|_| Ok(json!(7))).unwrap();
        assert_eq!(resolved, json!({"a": 7, "b": ["n is 7"]}));
    }
}
