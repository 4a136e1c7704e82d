//! A form from a JSON Schema, and arguments from such a form.
//!
//! What a schema says beyond types, members, items, enumerations and defaults is checked when the call is
//! made. A part that a form cannot show (`oneOf`, several types, no type) is a field for JSON text.
//!
//! Fields are named `arg:` and the JSON Pointer of their argument. Numbers stay as they were written.

use std::collections::HashMap;

use ringfence_types::Json;
use serde_json::Value;

use crate::{
    html::{Html, push_text, text},
    json_view::Node,
};

/// Depth of objects within objects that have fields of their own; deeper ones are JSON text.
const MAX_DEPTH: usize = 5;

/// Items of an array in a form.
const MAX_ITEMS: usize = 50;

/// Fields of one form: a schema of someone else makes at most so many.
const MAX_FIELDS: usize = 300;

/// Values of a form by JSON Pointer, as they were sent.
pub(crate) type Values = HashMap<String, String>;

/// Fault of a field: its pointer, and words.
pub(crate) type FieldError = (String, String);

/// Shape of a field.
enum Shape<'a> {
    Object,
    Array(&'a Value),
    Enumeration(&'a [Value]),
    Text,
    Number { is_whole: bool },
    Boolean,
    Json,
}

/// Names of properties in the order of the schema's text, by the same names sorted: values have lost it.
struct Order(HashMap<Vec<String>, Vec<String>>);

impl Order {
    fn of(schema: &Json) -> Self {
        let mut order = Self(HashMap::new());
        order.visit(&Node::of(schema));
        order
    }

    fn visit(&mut self, node: &Node) {
        match node {
            Node::Object(members) => {
                for (name, member) in members {
                    if let (true, Node::Object(properties)) = (name == "properties", member) {
                        let written: Vec<_> =
                            properties.iter().map(|(name, _)| name.clone()).collect();
                        let mut sorted = written.clone();
                        sorted.sort_unstable();
                        self.0.entry(sorted).or_insert(written);
                    }
                    self.visit(member);
                }
            }
            Node::Array(items) => items.iter().for_each(|item| self.visit(item)),
            Node::Text(_) | Node::Literal(_) => {}
        }
    }

    /// The names of these properties in the order of the text.
    fn names(&self, properties: &serde_json::Map<String, Value>) -> Vec<String> {
        let mut sorted: Vec<_> = properties.keys().cloned().collect();
        sorted.sort_unstable();
        self.0.get(&sorted).cloned().unwrap_or(sorted)
    }
}

/// The fields of a schema in the order of its text, filled with these values.
pub(crate) fn fields(schema: &Json, values: &Values) -> Html {
    let (root, order) = (&schema.to_value(), Order::of(schema));
    let mut form = Form { root, order, values, out: String::new(), fields: 0 };
    let schema = root;
    form.members(schema, "", 0);
    if form.out.is_empty() {
        form.out.push_str("<p class=\"muted\">This tool takes no arguments.</p>");
    }
    Html(form.out)
}

/// Whether a form can show the whole schema; else JSON text is the better way.
pub(crate) fn is_suitable(schema: &Value) -> bool {
    matches!(shape(schema, schema), Shape::Object) || schema.get("properties").is_none()
}

struct Form<'a> {
    root: &'a Value,
    order: Order,
    values: &'a Values,
    out: String,
    fields: usize,
}

impl<'a> Form<'a> {
    fn members(&mut self, schema: &'a Value, pointer: &str, depth: usize) {
        let schema = resolved(self.root, schema);
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
        for name in self.order.names(properties) {
            let Some(member) = properties.get(&name) else { continue };
            let pointer = ringfence_edge::problem::pointer(pointer, &name);
            self.field(member, &pointer, &name, is_required(schema, &name), depth);
        }
    }

    fn field(
        &mut self,
        schema: &'a Value,
        pointer: &str,
        name: &str,
        is_required: bool,
        depth: usize,
    ) {
        self.fields += 1;
        if self.fields > MAX_FIELDS {
            return;
        }
        let schema = resolved(self.root, schema);
        let shape = if depth < MAX_DEPTH { shape(self.root, schema) } else { Shape::Json };
        match shape {
            Shape::Object => {
                self.open("fieldset", pointer, name, is_required, schema);
                self.members(schema, pointer, depth + 1);
                self.out.push_str("</fieldset>");
            }
            Shape::Array(items) => {
                self.open("fieldset", pointer, name, is_required, schema);
                let count = item_count(self.values, pointer, schema);
                for index in 0..count {
                    let label = format!("{name} {}", index + 1);
                    self.field(items, &format!("{pointer}/{index}"), &label, false, depth + 1);
                }
                let pointer = text(pointer);
                self.out.push_str(&format!(
                    "<input type=\"hidden\" name=\"count:{pointer}\" value=\"{count}\"><button \
                     class=\"button small\" name=\"add\" value=\"{pointer}\" formnovalidate>Add an \
                     item</button></fieldset>"
                ));
            }
            simple => self.input(&simple, schema, pointer, name, is_required),
        }
    }

    fn open(&mut self, tag: &str, pointer: &str, name: &str, is_required: bool, schema: &Value) {
        let (name, mark) = (text(name), if is_required { " <em>required</em>" } else { "" });
        self.out.push_str(&format!(
            "<{tag} data-pointer=\"{}\"><legend>{name}{mark}</legend>",
            text(pointer)
        ));
        self.hint(schema);
    }

    fn hint(&mut self, schema: &Value) {
        if let Some(about) = schema.get("description").and_then(Value::as_str) {
            self.out.push_str("<span class=\"hint\">");
            push_text(&mut self.out, about);
            self.out.push_str("</span>");
        }
    }

    fn input(
        &mut self,
        shape: &Shape<'_>,
        schema: &Value,
        pointer: &str,
        name: &str,
        is_required: bool,
    ) {
        let value = self.values.get(pointer).cloned().unwrap_or_else(|| default(schema));
        let required = if is_required { " required" } else { "" };
        let mark = if is_required { " <em>required</em>" } else { "" };
        let field = format!("name=\"arg:{}\"", text(pointer));
        self.out.push_str(&format!(
            "<label class=\"field\"><span class=\"label\">{}{mark}</span>",
            text(name)
        ));
        self.hint(schema);
        let value_text = text(&value);
        let control = match shape {
            Shape::Enumeration(allowed) => options(&field, allowed, &value, is_required),
            Shape::Boolean => {
                let allowed = [Value::Bool(true), Value::Bool(false)];
                options(&field, &allowed, &value, is_required)
            }
            Shape::Number { is_whole } => {
                let step = if *is_whole { "1" } else { "any" };
                let bound = |name: &str, attribute: &str| {
                    let bound = schema.get(name).filter(|bound| bound.is_number());
                    bound.map(|bound| format!(" {attribute}=\"{bound}\"")).unwrap_or_default()
                };
                let (least, most) = (bound("minimum", "min"), bound("maximum", "max"));
                format!(
                    "<input type=\"number\" step=\"{step}\"{least}{most} {field} value=\"{value_text}\"{required}>"
                )
            }
            Shape::Text if !is_long(schema, name, &value) => {
                format!(
                    "<input type=\"text\" {field} value=\"{value_text}\"{required} spellcheck=\"false\">"
                )
            }
            Shape::Text => format!(
                "<textarea rows=\"5\" {field}{required} spellcheck=\"false\">\n{value_text}</textarea>"
            ),
            _ => format!(
                "<textarea rows=\"4\" class=\"code\" {field}{required} placeholder=\"JSON\" \
                 spellcheck=\"false\">\n{value_text}</textarea>"
            ),
        };
        self.out.push_str(&control);
        self.out.push_str("</label>");
    }
}

/// A choice among values; its values are JSON text.
fn options(field: &str, allowed: &[Value], chosen: &str, is_required: bool) -> String {
    let mut out = format!("<select {field}>");
    if !is_required {
        out.push_str("<option value=\"\">not set</option>");
    }
    for value in allowed {
        let json = value.to_string();
        let words = value.as_str().unwrap_or(&json);
        let selected = if json == chosen { " selected" } else { "" };
        out.push_str(&format!(
            "<option value=\"{}\"{selected}>{}</option>",
            text(&json),
            text(words)
        ));
    }
    out.push_str("</select>");
    out
}

/// Names of arguments that usually have several lines.
const LONG_NAMES: &[&str] =
    &["code", "text", "body", "content", "script", "query", "sql", "prompt", "message", "source"];

fn is_long(schema: &Value, name: &str, value: &str) -> bool {
    let most = schema.get("maxLength").and_then(Value::as_u64);
    value.contains('\n') || (most.is_none_or(|most| most > 200) && LONG_NAMES.contains(&name))
}

/// The default of a schema, as the text of its field.
fn default(schema: &Value) -> String {
    let is_choice = schema.get("enum").is_some() || schema["type"] == "boolean";
    match schema.get("default") {
        Some(Value::String(text)) if !is_choice => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    }
}

fn item_count(values: &Values, pointer: &str, schema: &Value) -> usize {
    let sent = values.get(&format!("count:{pointer}")).and_then(|count| count.parse().ok());
    let least = schema
        .get("minItems")
        .and_then(Value::as_u64)
        .and_then(|least| usize::try_from(least).ok());
    sent.unwrap_or(least.unwrap_or(1).max(1)).min(MAX_ITEMS)
}

fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|required| required == name))
}

/// The schema that a reference within the document leads to.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let mut found = schema;
    for _ in 0..8 {
        let target =
            found.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
        match target.and_then(|target| root.pointer(target)) {
            Some(next) => found = next,
            None => break,
        }
    }
    found
}

fn shape<'a>(root: &'a Value, schema: &'a Value) -> Shape<'a> {
    let schema = resolved(root, schema);
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
        return Shape::Enumeration(allowed);
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => match schema.get("properties").and_then(Value::as_object) {
            Some(properties) if !properties.is_empty() => Shape::Object,
            _ => Shape::Json,
        },
        Some("array") => {
            schema.get("items").filter(|items| items.is_object()).map_or(Shape::Json, Shape::Array)
        }
        Some("string") => Shape::Text,
        Some("integer") => Shape::Number { is_whole: true },
        Some("number") => Shape::Number { is_whole: false },
        Some("boolean") => Shape::Boolean,
        _ => Shape::Json,
    }
}

/// Arguments from the values of a form, or everything that is wrong with them.
pub(crate) fn arguments(schema: &Value, values: &Values) -> Result<Json, Vec<FieldError>> {
    let mut reader = Reader { root: schema, values, errors: Vec::new(), fields: 0 };
    let text = reader.object(schema, "", 0).unwrap_or_else(|| "{}".to_owned());
    if !reader.errors.is_empty() {
        return Err(reader.errors);
    }
    Json::parse(text.as_bytes()).map_err(|error| vec![(String::new(), error.to_string())])
}

struct Reader<'a> {
    root: &'a Value,
    values: &'a Values,
    errors: Vec<FieldError>,
    fields: usize,
}

impl<'a> Reader<'a> {
    /// The object's text; none if it has no members.
    fn object(&mut self, schema: &'a Value, pointer: &str, depth: usize) -> Option<String> {
        let schema = resolved(self.root, schema);
        let properties = schema.get("properties").and_then(Value::as_object);
        let mut members = Vec::new();
        for (name, member) in properties.into_iter().flatten() {
            let pointer = ringfence_edge::problem::pointer(pointer, name);
            if let Some(value) = self.value(member, &pointer, is_required(schema, name), depth) {
                members.push(format!("{}:{value}", Value::from(name.as_str())));
            }
        }
        (!members.is_empty()).then(|| format!("{{{}}}", members.join(",")))
    }

    fn value(
        &mut self,
        schema: &'a Value,
        pointer: &str,
        is_required: bool,
        depth: usize,
    ) -> Option<String> {
        self.fields += 1;
        if self.fields > MAX_FIELDS {
            return None;
        }
        let schema = resolved(self.root, schema);
        let shape = if depth < MAX_DEPTH { shape(self.root, schema) } else { Shape::Json };
        match shape {
            Shape::Object => {
                let object = self.object(schema, pointer, depth + 1);
                object.or(is_required.then(|| "{}".to_owned()))
            }
            Shape::Array(items) => {
                let count = item_count(self.values, pointer, schema);
                let items: Vec<_> = (0..count)
                    .filter_map(|index| {
                        self.value(items, &format!("{pointer}/{index}"), false, depth + 1)
                    })
                    .collect();
                (!items.is_empty() || is_required).then(|| format!("[{}]", items.join(",")))
            }
            Shape::Text => {
                let sent = self.values.get(pointer)?;
                // Browsers send lines as CR LF.
                let sent = sent.replace("\r\n", "\n");
                (!sent.is_empty() || is_required).then(|| Value::from(sent).to_string())
            }
            Shape::Number { .. } | Shape::Boolean | Shape::Enumeration(_) | Shape::Json => {
                let sent = self
                    .values
                    .get(pointer)
                    .map(|sent| sent.trim())
                    .filter(|sent| !sent.is_empty())?;
                match Json::parse(sent.as_bytes()) {
                    Ok(json) => Some(json.as_str().to_owned()),
                    Err(error) => {
                        self.errors.push((pointer.to_owned(), error.to_string()));
                        None
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "required": ["to", "count"],
            "properties": {
                "to": {"type": "string", "description": "<b>who</b>"},
                "count": {"type": "integer", "minimum": 1},
                "mode": {"enum": ["fast", "safe"], "default": "safe"},
                "is_urgent": {"type": "boolean"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "from": {"$ref": "#/$defs/person"},
                "extra": {"oneOf": [{"type": "string"}, {"type": "null"}]},
            },
            "$defs": {"person": {"type": "object", "properties": {
                "name": {"type": "string"}, "next": {"$ref": "#/$defs/person"},
            }}},
        })
    }

    fn as_json(schema: &Value) -> Json {
        Json::from_value(schema).unwrap()
    }

    #[test]
    fn fields_are_in_the_order_of_the_schema() {
        let text = r#"{"type": "object", "properties": {"zoo": {"type": "string"},
            "at": {"type": "object", "properties": {"y": {"type": "string"}, "b": {"type": "string"}}},
            "mid": {"type": "string"}}}"#;
        let html = fields(&Json::parse(text.as_bytes()).unwrap(), &Values::new()).0;
        let place = |name: &str| html.find(&format!("name=\"arg:{name}\"")).expect(name);
        let places = ["/zoo", "/at/y", "/at/b", "/mid"].map(place);
        assert!(places.is_sorted(), "{places:?}: {html}");
    }

    fn values(pairs: &[(&str, &str)]) -> Values {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_form_becomes_arguments_with_their_types_and_digits() {
        let sent = values(&[
            ("/to", "ann"),
            ("/count", "123456789012345678901234567890"),
            ("/mode", "\"fast\""),
            ("/is_urgent", "false"),
            ("count:/tags", "3"),
            ("/tags/0", "a"),
            ("/tags/1", ""),
            ("/tags/2", "c"),
            ("/from/name", "bob\r\nb"),
            ("/extra", "null"),
        ]);
        let args = arguments(&schema(), &sent).unwrap();
        assert_eq!(
            args.as_str(),
            r#"{"count":123456789012345678901234567890,"extra":null,"from":{"name":"bob\nb"},"is_urgent":false,"mode":"fast","tags":["a","c"],"to":"ann"}"#
        );
    }

    #[test]
    fn empty_fields_are_left_out_and_bad_ones_named() {
        assert_eq!(
            arguments(&schema(), &values(&[("/to", ""), ("/count", "")])).unwrap().as_str(),
            r#"{"to":""}"#
        );
        let errors =
            arguments(&schema(), &values(&[("/count", "x"), ("/extra", "{")])).unwrap_err();
        let names: Vec<_> = errors.iter().map(|(pointer, _)| pointer.as_str()).collect();
        assert_eq!(names, ["/count", "/extra"]);
    }

    #[test]
    fn every_kind_of_field_is_shown_and_text_is_inert() {
        let html = fields(&as_json(&schema()), &values(&[("/to", "\"><script>")])).0;
        for wanted in [
            "name=\"arg:/to\" value=\"&quot;&gt;&lt;script&gt;\" required",
            "type=\"number\" step=\"1\" min=\"1\"",
            "<option value=\"&quot;safe&quot;\" selected>safe</option>",
            "name=\"count:/tags\"",
            "name=\"arg:/from/name\"",
            "&lt;b&gt;who&lt;/b&gt;",
        ] {
            assert!(html.contains(wanted), "{wanted}: {html}");
        }
        assert!(!html.contains("<script>"));
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let endless = json!({"$ref": "#"});
        assert_eq!(arguments(&endless, &Values::new()).unwrap().as_str(), "{}");
        assert!(fields(&as_json(&schema()), &Values::new()).0.len() < 100_000);
    }
}
