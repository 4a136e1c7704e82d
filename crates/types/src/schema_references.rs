//! References of a JSON Schema, when the schema becomes a part of another one or is taken out of it.

use serde_json::Value;

/// Keywords whose members are schemas under any name.
const NAMED_SCHEMAS: &[&str] =
    &["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords whose values are data, not schemas.
const DATA: &[&str] = &["const", "enum", "default", "examples"];

/// Replaces the pointer `from` at the beginning of references within the schema by `to`: from `#` to
/// `#/properties/x` when it becomes the schema of the member `x`, and back.
pub fn move_references(schema: &mut Value, from: &str, to: &str) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("$ref" | "$dynamicRef", Value::String(reference)) => {
                        move_reference(reference, from, to);
                    }
                    (name, Value::Object(schemas)) if NAMED_SCHEMAS.contains(&name) => {
                        schemas.values_mut().for_each(|schema| move_references(schema, from, to));
                    }
                    (name, value) if !DATA.contains(&name) => move_references(value, from, to),
                    _ => {}
                }
            }
        }
        Value::Array(parts) => parts.iter_mut().for_each(|part| move_references(part, from, to)),
        _ => {}
    }
}

fn move_reference(reference: &mut String, from: &str, to: &str) {
    let rest = reference.strip_prefix(from).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    if let Some(rest) = rest {
        *reference = format!("{to}{rest}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_follow_the_schema_there_and_back() {
        let schema = json!({
            "$ref": "#", "allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#anchor"}],
            "properties": {"default": {"$ref": "#/properties/$ref"}, "$ref": {"type": "string"}},
            "default": {"$ref": "#/stays"}, "enum": [{"$ref": "#"}],
            "items": {"$ref": "https://example.com/s#/x"},
        });
        let mut moved = schema.clone();
        move_references(&mut moved, "#", "#/properties/x");
        let expected = json!({
            "$ref": "#/properties/x",
            "allOf": [{"$ref": "#/properties/x/$defs/a"}, {"$ref": "#anchor"}],
            "properties": {
                "default": {"$ref": "#/properties/x/properties/$ref"}, "$ref": {"type": "string"},
            },
            "default": {"$ref": "#/stays"}, "enum": [{"$ref": "#"}],
            "items": {"$ref": "https://example.com/s#/x"},
        });
        assert_eq!(moved, expected);
        move_references(&mut moved, "#/properties/x", "#");
        assert_eq!(moved, schema);
    }
}
