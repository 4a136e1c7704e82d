//! References and schemas of a document.
//!
//! A schema keeps its references: the schemas that it needs are put beside it under `$defs`, each once,
//! however often and in whatever circles they are named.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::text::shown;

/// References that lead to references.
const MAX_HOPS: usize = 16;

/// Nesting of a schema.
const MAX_DEPTH: usize = 96;

/// Resolves references within one document.
pub(super) struct Resolver<'a> {
    root: &'a Value,
    /// Whether schemas are of OpenAPI 3.0.
    is_old: bool,
}

impl<'a> Resolver<'a> {
    pub(super) fn new(root: &'a Value, is_old: bool) -> Self {
        Self { root, is_old }
    }

    /// The value itself, or what its reference leads to.
    pub(super) fn follow(&self, value: &'a Value) -> Result<&'a Value, String> {
        let mut value = value;
        for _ in 0..MAX_HOPS {
            let Some(reference) = value.get("$ref").and_then(Value::as_str) else {
                return Ok(value);
            };
            value = self.find(reference)?;
        }
        Err("a reference leads to itself".to_owned())
    }

    fn find(&self, reference: &str) -> Result<&'a Value, String> {
        let Some(pointer) = reference.strip_prefix('#') else {
            let words = "is in another file or on another server, which is never read";
            return Err(format!("`$ref` `{}` {words}", shown(reference)));
        };
        // Pointers in a URL fragment may be percent-encoded.
        let pointer = decoded(pointer);
        let found = self.root.pointer(&pointer);
        found.ok_or_else(|| format!("`$ref` `{}` leads nowhere", shown(reference)))
    }

    /// A schema that stands for itself, of at most `limit` bytes, as draft 2020-12.
    pub(super) fn schema(
        &self,
        schemas: Vec<(String, &'a Value)>,
        limit: usize,
    ) -> Result<Closed, String> {
        let mut collector =
            Collector { resolver: self, names: BTreeMap::new(), waiting: Vec::new(), left: limit };
        let mut parts = BTreeMap::new();
        for (name, schema) in schemas {
            parts.insert(name, collector.convert(schema, 0)?);
        }
        let mut definitions = Map::new();
        while let Some((name, schema)) = collector.waiting.pop() {
            let converted = collector.convert(schema, 0)?;
            definitions.insert(name, converted);
        }
        Ok(Closed { parts, definitions })
    }
}

fn decoded(pointer: &str) -> String {
    let bytes = pointer.as_bytes();
    let (mut out, mut index) = (Vec::with_capacity(bytes.len()), 0);
    while index < bytes.len() {
        let digits = (bytes[index] == b'%').then(|| pointer.get(index + 1..index + 3)).flatten();
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                index += 3;
            }
            None => {
                out.push(bytes[index]);
                index += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_default()
}

/// Schemas with everything that they refer to.
pub(super) struct Closed {
    pub(super) parts: BTreeMap<String, Value>,
    pub(super) definitions: Map<String, Value>,
}

impl Closed {
    /// The schema of an object with these properties.
    pub(super) fn object(self, required: &[String]) -> Value {
        let properties: Map<_, _> = self.parts.into_iter().collect();
        let mut schema = json!({
            "type": "object", "properties": properties, "required": required,
            "additionalProperties": false,
        });
        if !self.definitions.is_empty() {
            schema["$defs"] = Value::Object(self.definitions);
        }
        schema
    }
}

/// Schemas that are on their way into one closed schema.
struct Collector<'r, 'a> {
    resolver: &'r Resolver<'a>,
    /// Names under `$defs`, by reference.
    names: BTreeMap<String, String>,
    waiting: Vec<(String, &'a Value)>,
    /// Bytes that are left, about.
    left: usize,
}

/// Keywords that say nothing about values.
const DROPPED: [&str; 8] =
    ["example", "examples", "xml", "externalDocs", "discriminator", "$schema", "$id", "$anchor"];

/// Keywords whose value is one schema.
const SCHEMAS: [&str; 11] = [
    "items",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "additionalProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "additionalItems",
];

/// Keywords whose value is a list of schemas.
const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];

/// Keywords whose value is a mapping of schemas.
const MAPPINGS: [&str; 4] = ["properties", "patternProperties", "dependentSchemas", "$defs"];

impl<'a> Collector<'_, 'a> {
    fn spend(&mut self, bytes: usize) -> Result<(), String> {
        self.left = self.left.checked_sub(bytes).ok_or("its schemas are too large")?;
        Ok(())
    }

    fn convert(&mut self, schema: &'a Value, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err("a schema is nested too deep".to_owned());
        }
        let Value::Object(fields) = schema else {
            self.spend(8)?;
            return match schema {
                Value::Bool(_) => Ok(schema.clone()),
                _ => Err("a schema must be a mapping".to_owned()),
            };
        };
        if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
            return self.reference(reference);
        }
        let mut out = Map::new();
        for (name, value) in fields {
            self.spend(name.len() + 8)?;
            let name = name.as_str();
            let kept = if DROPPED.contains(&name) || name.starts_with("x-") {
                continue;
            } else if SCHEMAS.contains(&name) {
                self.convert(value, depth + 1)?
            } else if LISTS.contains(&name) {
                let list = value.as_array().ok_or_else(|| format!("`{name}` must be a list"))?;
                let list = list.iter().map(|schema| self.convert(schema, depth + 1));
                Value::Array(list.collect::<Result<_, _>>()?)
            } else if MAPPINGS.contains(&name) {
                let map = value.as_object().ok_or_else(|| format!("`{name}` must be a mapping"))?;
                let map = map.iter().map(|(name, schema)| {
                    Ok::<_, String>((name.clone(), self.convert(schema, depth + 1)?))
                });
                Value::Object(map.collect::<Result<_, _>>()?)
            } else {
                self.spend(size(value))?;
                value.clone()
            };
            out.insert(name.to_owned(), kept);
        }
        if self.resolver.is_old {
            modernise(&mut out);
        }
        Ok(Value::Object(out))
    }

    fn reference(&mut self, reference: &str) -> Result<Value, String> {
        let target = self.resolver.find(reference)?;
        self.spend(reference.len() + 16)?;
        let name = match self.names.get(reference) {
            Some(name) => name.clone(),
            None => {
                let last = reference.rsplit('/').next().unwrap_or("schema");
                let plain: String =
                    last.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                let name = format!("{plain}_{}", self.names.len());
                self.names.insert(reference.to_owned(), name.clone());
                self.waiting.push((name.clone(), target));
                name
            }
        };
        Ok(json!({"$ref": format!("#/$defs/{name}")}))
    }
}

/// Bytes of a value as text, about.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 2,
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| name.len() + 4 + size(value)).sum::<usize>() + 2
        }
    }
}

/// Keywords of OpenAPI 3.0 that JSON Schema has in another form.
fn modernise(schema: &mut Map<String, Value>) {
    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        match schema.get(exclusive) {
            Some(Value::Bool(true)) => match schema.remove(bound) {
                Some(limit) => drop(schema.insert(exclusive.to_owned(), limit)),
                None => drop(schema.remove(exclusive)),
            },
            Some(Value::Bool(false)) => drop(schema.remove(exclusive)),
            _ => {}
        }
    }
    if schema.remove("nullable") != Some(Value::Bool(true)) {
        return;
    }
    match schema.get_mut("type") {
        Some(Value::String(kind)) => {
            let kinds = json!([kind.clone(), "null"]);
            schema.insert("type".to_owned(), kinds);
            if let Some(Value::Array(values)) = schema.get_mut("enum")
                && !values.contains(&Value::Null)
            {
                values.push(Value::Null);
            }
        }
        _ => {
            let inner = Value::Object(std::mem::take(schema));
            schema.insert("anyOf".to_owned(), json!([inner, {"type": "null"}]));
        }
    }
}

/// Removes patterns, which may be in a language that is not checked here.
pub(super) fn without_patterns(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("pattern").is_some_and(Value::is_string) {
                fields.remove("pattern");
            }
            fields.remove("patternProperties");
            fields.values_mut().for_each(without_patterns);
        }
        Value::Array(items) => items.iter_mut().for_each(without_patterns),
        _ => {}
    }
}
