//! Fields of a schema as a table: name, type, bounds, meaning.

use std::fmt::Write as _;

use serde_json::Value;

use super::{escape, text};

/// A table of the fields of an object; for anything else its type.
pub(super) fn write(page: &mut String, schema: &Value) {
    let Some(fields) = schema["properties"].as_object().filter(|fields| !fields.is_empty()) else {
        let _ = write!(page, "<p>{}</p>", kind(schema));
        return;
    };
    page.push_str("<table>");
    for (name, field) in fields {
        let required = schema["required"].as_array();
        let is_required = required.is_some_and(|all| all.iter().any(|one| one == name));
        row(page, name, if is_required { "required" } else { "" }, field, &field["description"]);
    }
    page.push_str("</table>");
}

/// A field or a parameter.
pub(super) fn row(page: &mut String, name: &str, place: &str, schema: &Value, about: &Value) {
    let _ = write!(
        page,
        "<tr><td><code>{}</code></td><td>{place}</td><td>{}{}</td><td>{}</td></tr>",
        escape(name),
        kind(schema),
        bounds(schema),
        escape(text(about)),
    );
}

/// The name of a type; one that has fields of its own is a link to them.
pub(super) fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|target| target.rsplit('/').next()) {
        let name = escape(name);
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    let choices = ["oneOf", "anyOf", "allOf"].into_iter().find_map(|kind| schema[kind].as_array());
    if let Some(choices) = choices {
        return choices.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    if let Some(values) = schema["enum"].as_array() {
        let values =
            values.iter().map(|value| format!("<code>{}</code>", escape(&value.to_string())));
        return values.collect::<Vec<_>>().join(", ");
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => format!("list of {}", kind(&schema["items"])),
        Value::String(name) => escape(name),
        Value::Array(names) => {
            names.iter().map(|name| escape(text(name))).collect::<Vec<_>>().join(" or ")
        }
        _ if schema.get("const").is_some() => {
            format!("<code>{}</code>", escape(&schema["const"].to_string()))
        }
        _ => "anything".to_owned(),
    }
}

/// Bounds of a value beside its type.
const BOUNDS: &[(&str, &str)] = &[
    ("format", ""),
    ("minimum", "at least "),
    ("maximum", "at most "),
    ("minLength", "characters: at least "),
    ("maxLength", "characters: at most "),
    ("minItems", "items: at least "),
    ("maxItems", "items: at most "),
    ("maxProperties", "fields: at most "),
    ("pattern", "matches "),
    ("default", "default "),
];

fn bounds(schema: &Value) -> String {
    let given = BOUNDS.iter().filter_map(|(name, words)| Some((words, schema.get(*name)?)));
    let plain = |value: &Value| match value {
        Value::String(text) => escape(text),
        other => escape(&other.to_string()),
    };
    given.map(|(words, value)| format!("<br><small>{words}{}</small>", plain(value))).collect()
}
