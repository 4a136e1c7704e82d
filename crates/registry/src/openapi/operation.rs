//! One operation as a tool.

use std::{collections::HashSet, time::Duration};

use ringfence_types::{Json, Limits, Origin, ToolPermissions};
use serde_json::{Value, json};

use super::{Document, names::Names, schema, security, server};
use crate::{
    definition::{Definition, Recipe},
    http_tool::{
        BodyKind, HttpBody, HttpOperation, HttpParameter, HttpTool, ParameterPlace, ParameterStyle,
    },
    text::shown,
};

/// Bytes of the schemas of one operation's arguments.
const MAX_INPUT_BYTES: usize = 256 << 10;

/// Parameters of one operation.
const MAX_PARAMETERS: usize = 200;

/// Characters of a description.
const MAX_DESCRIPTION_CHARS: usize = 2_000;

/// Wall time of one call.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Argument with the body.
const BODY: &str = "body";

/// The tool of an operation, or why it cannot be used.
pub(super) fn read<'a>(
    document: &Document<'a>,
    names: &mut Names,
    path: &str,
    method: &str,
    item: &'a Value,
    operation: &'a Value,
) -> Result<Definition, String> {
    if method == "trace" {
        return Err("the method TRACE cannot be used".to_owned());
    }
    let (server, host) = server::of(document, item, operation)?;
    let credentials = security::of(document, operation)?;
    let mut schemas = Vec::new();
    let mut required = Vec::new();
    let parameters = parameters(document, item, operation, &mut schemas, &mut required)?;
    let body = body(document, operation, &mut schemas, &mut required)?;
    let closed = document.resolver.schema(schemas, MAX_INPUT_BYTES)?;
    let mut input = closed.object(&required);
    describe(document, item, operation, &mut input);
    let id = operation.get("operationId").and_then(Value::as_str);
    let operation_described = HttpOperation {
        name: String::new(),
        method: method.to_ascii_uppercase(),
        server,
        path: path.to_owned(),
        parameters,
        body,
        credentials,
    };
    let flags: &[&str] = match operation_described.is_read_only() {
        true => &["external_call"],
        false => &["external_call", "side_effect"],
    };
    let secrets = operation_described.credentials.iter().map(|one| one.secret.clone()).collect();
    let limits = Limits { wall: TIMEOUT, ..Limits::default() };
    let tags = operation.get("tags").and_then(Value::as_array).into_iter().flatten();
    let tags = tags.filter_map(Value::as_str).map(shown).take(16).collect();
    let mut definition = Definition {
        name: names.take(&document.prefix, id, method, path)?,
        version: document.version.clone(),
        description: description(operation, method, path),
        origin: Origin::Openapi,
        input_schema: json(&input)?,
        output_schema: json(&output())?,
        safety_flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
        requires_approval: false,
        tags,
        asks: ToolPermissions { hosts: vec![host], secrets, ..ToolPermissions::default() },
        limits,
        examples: Vec::new(),
        runs: Recipe::Http(HttpTool { selector: None, operations: vec![operation_described] }),
    };
    let mut problems = definition.problems();
    if !problems.is_empty() {
        // Patterns of other languages are no reason to go without the operation.
        schema::without_patterns(&mut input);
        definition.input_schema = json(&input)?;
        problems = definition.problems();
    }
    match problems.is_empty() {
        true => Ok(definition),
        false => Err(problems.join("; ")),
    }
}

fn json(value: &Value) -> Result<Json, String> {
    Json::from_value(value).ok_or_else(|| "a schema is nested too deep".to_owned())
}

/// Schema of every result.
fn output() -> Value {
    json!({
        "type": "object", "required": ["status"],
        "properties": {
            "status": {"type": "integer"},
            "media_type": {"type": "string"},
            "body": {},
        },
    })
}

fn description(operation: &Value, method: &str, path: &str) -> String {
    let text = |name: &str| operation.get(name).and_then(Value::as_str).map(str::trim);
    let said: Vec<_> = [text("summary"), text("description")]
        .into_iter()
        .flatten()
        .filter(|text| !text.is_empty())
        .collect();
    let whole = match said.as_slice() {
        [] => format!("{} {path}", method.to_ascii_uppercase()),
        [one] => (*one).to_owned(),
        [summary, description, ..] => format!("{summary}\n\n{description}"),
    };
    let is_kept = |c: &char| !c.is_control() || *c == '\n';
    whole.chars().filter(is_kept).take(MAX_DESCRIPTION_CHARS).collect()
}

/// Parameters of the path item and the operation; one of the operation takes the place of the other.
fn listed<'a>(
    document: &Document<'a>,
    item: &'a Value,
    operation: &'a Value,
) -> Result<Vec<&'a Value>, String> {
    let list = |part: &'a Value| part.get("parameters").and_then(Value::as_array);
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for parameter in [list(operation), list(item)].into_iter().flatten().flatten() {
        let parameter = document.resolver.follow(parameter)?;
        let key = (parameter["name"].as_str(), parameter["in"].as_str());
        if seen.insert(key) {
            found.push(parameter);
        }
        if found.len() > MAX_PARAMETERS {
            return Err(format!("more than {MAX_PARAMETERS} parameters"));
        }
    }
    Ok(found)
}

/// Header fields that OpenAPI says are described elsewhere.
const IGNORED_HEADERS: [&str; 3] = ["accept", "content-type", "authorization"];

fn parameters<'a>(
    document: &Document<'a>,
    item: &'a Value,
    operation: &'a Value,
    schemas: &mut Vec<(String, &'a Value)>,
    required: &mut Vec<String>,
) -> Result<Vec<HttpParameter>, String> {
    let mut found: Vec<HttpParameter> = Vec::new();
    for parameter in listed(document, item, operation)? {
        let name = parameter.get("name").and_then(Value::as_str).unwrap_or_default();
        let within = parameter.get("in").and_then(Value::as_str).unwrap_or_default();
        let named = |problem: &str| format!("parameter `{}`: {problem}", shown(name));
        if name.is_empty() {
            return Err("a parameter has no name".to_owned());
        }
        let place = match within {
            "path" => ParameterPlace::Path,
            "query" => ParameterPlace::Query,
            "header" if IGNORED_HEADERS.contains(&name.to_ascii_lowercase().as_str()) => continue,
            "header" => ParameterPlace::Header,
            "cookie" => ParameterPlace::Cookie,
            _ => return Err(named("`in` must be path, query, header or cookie")),
        };
        let is_taken = |argument: &str| {
            argument == BODY || found.iter().any(|other| other.argument == argument)
        };
        let argument = match is_taken(name) {
            true => format!("{within}_{name}"),
            false => name.to_owned(),
        };
        let (schema, style, explode) =
            written(document, parameter, place).map_err(|why| named(&why))?;
        if place == ParameterPlace::Path || parameter["required"] == Value::Bool(true) {
            required.push(argument.clone());
        }
        schemas.push((argument.clone(), schema));
        found.push(HttpParameter {
            name: name.to_owned(),
            argument,
            place,
            style,
            explode,
            allow_reserved: parameter["allowReserved"] == Value::Bool(true),
        });
    }
    Ok(found)
}

/// A schema of anything.
const ANY: &Value = &Value::Bool(true);

/// Schema, style and `explode` of a parameter.
fn written<'a>(
    document: &Document<'a>,
    parameter: &'a Value,
    place: ParameterPlace,
) -> Result<(&'a Value, ParameterStyle, bool), String> {
    if let Some(content) = parameter.get("content").and_then(Value::as_object) {
        let media = content.iter().find(|(name, _)| is_json(name));
        let (_, media) = media.ok_or("its content is not JSON")?;
        return Ok((media.get("schema").unwrap_or(ANY), ParameterStyle::Json, false));
    }
    let schema = parameter.get("schema").unwrap_or(ANY);
    // Only to be sure that it leads somewhere.
    document.resolver.follow(schema)?;
    let style = match parameter.get("style").and_then(Value::as_str) {
        None => match place {
            ParameterPlace::Query | ParameterPlace::Cookie => ParameterStyle::Form,
            ParameterPlace::Path | ParameterPlace::Header => ParameterStyle::Simple,
        },
        Some("matrix") => ParameterStyle::Matrix,
        Some("label") => ParameterStyle::Label,
        Some("simple") => ParameterStyle::Simple,
        Some("form") => ParameterStyle::Form,
        Some("spaceDelimited") => ParameterStyle::SpaceDelimited,
        Some("pipeDelimited") => ParameterStyle::PipeDelimited,
        Some("deepObject") => ParameterStyle::DeepObject,
        Some(other) => return Err(format!("style `{}` is unknown", shown(other))),
    };
    let explode = parameter.get("explode").and_then(Value::as_bool);
    Ok((schema, style, explode.unwrap_or(style == ParameterStyle::Form)))
}

fn is_json(media_type: &str) -> bool {
    let bare = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    bare == "application/json" || bare.ends_with("+json")
}

/// Whether a media type is of a kind.
type IsMedia<'a> = &'a dyn Fn(&str) -> bool;

fn body<'a>(
    document: &Document<'a>,
    operation: &'a Value,
    schemas: &mut Vec<(String, &'a Value)>,
    required: &mut Vec<String>,
) -> Result<Option<HttpBody>, String> {
    let Some(described) = operation.get("requestBody") else { return Ok(None) };
    let described = document.resolver.follow(described)?;
    let Some(content) = described.get("content").and_then(Value::as_object) else {
        return Ok(None);
    };
    let bare = |name: &str| name.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let kinds: [(BodyKind, IsMedia<'_>); 4] = [
        (BodyKind::Json, &|name| is_json(name) || bare(name) == "*/*"),
        (BodyKind::Form, &|name| bare(name) == "application/x-www-form-urlencoded"),
        (BodyKind::Multipart, &|name| bare(name) == "multipart/form-data"),
        (BodyKind::Text, &|name| bare(name).starts_with("text/")),
    ];
    let found = kinds.iter().find_map(|(kind, is_it)| {
        let (name, media) = content.iter().find(|(name, _)| is_it(name))?;
        Some((*kind, name, media))
    });
    let Some((kind, name, media)) = found else {
        let names: Vec<_> = content.keys().map(|name| shown(name)).take(5).collect();
        if described["required"] != Value::Bool(true) {
            return Ok(None);
        }
        return Err(format!("no body of {} can be sent", names.join(", ")));
    };
    let media_type = if name == "*/*" { "application/json" } else { name.as_str() };
    schemas.push((BODY.to_owned(), media.get("schema").unwrap_or(ANY)));
    if described["required"] == Value::Bool(true) {
        required.push(BODY.to_owned());
    }
    Ok(Some(HttpBody { argument: BODY.to_owned(), kind, media_type: media_type.to_owned() }))
}

/// Adds the descriptions of parameters to the schemas of arguments that have none.
fn describe<'a>(document: &Document<'a>, item: &'a Value, operation: &'a Value, input: &mut Value) {
    let Ok(parameters) = listed(document, item, operation) else { return };
    for parameter in parameters {
        let (Some(name), Some(text)) =
            (parameter["name"].as_str(), parameter["description"].as_str())
        else {
            continue;
        };
        if let Some(Value::Object(schema)) = input["properties"].get_mut(name)
            && !schema.contains_key("description")
        {
            let text: String = text.chars().take(500).collect();
            schema.insert("description".to_owned(), Value::String(text));
        }
    }
}
