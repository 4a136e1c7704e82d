use serde_json::json;

use super::*;
use crate::{definition::Recipe, http_tool::HttpTool};

fn document() -> Value {
    json!({
        "openapi": "3.0.3",
        "info": {"title": "Pet Store", "version": "1.2"},
        "servers": [{"url": "https://{region}.pets.example/v1", "variables": {"region": {"default": "eu"}}}],
        "security": [{"key": []}],
        "components": {
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
                "login": {"type": "http", "scheme": "basic"},
                "odd": {"type": "mutualTLS"},
            },
            "parameters": {"limit": {"name": "limit", "in": "query", "schema": {
                "type": "integer", "minimum": 0, "exclusiveMinimum": true}}},
            "schemas": {
                "Pet": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string", "nullable": true},
                    "parent": {"$ref": "#/components/schemas/Pet"},
                    "owner": {"$ref": "#/components/schemas/Person"},
                }},
                "Person": {"type": "object", "properties": {
                    "pets": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}},
                }},
            },
        },
        "paths": {
            "/pets": {
                "get": {"operationId": "listPets", "summary": "Lists pets", "parameters": [
                    {"$ref": "#/components/parameters/limit"},
                    {"name": "tags", "in": "query", "explode": false,
                     "schema": {"type": "array", "items": {"type": "string"}}},
                ]},
                "post": {"operationId": "addPet", "security": [{"login": []}], "requestBody": {
                    "required": true,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                }},
            },
            "/pets/{id}": {
                "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
                "delete": {"parameters": [{"name": "id", "in": "query", "schema": {"type": "string"}}]},
                "trace": {},
                "patch": {"operationId": "patchPet", "requestBody": {"required": true, "content": {
                    "application/octet-stream": {}}}},
                "put": {"operationId": "putPet", "security": [{"odd": []}]},
            },
        },
    })
}

fn import(document: &Value) -> OpenapiImport {
    let read = OpenapiImport::read(document.to_string().as_bytes(), &OpenapiOptions::default());
    read.unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn problems(document: &Value) -> Vec<String> {
    OpenapiImport::read(document.to_string().as_bytes(), &OpenapiOptions::default()).unwrap_err()
}

fn tool<'a>(import: &'a OpenapiImport, name: &str) -> (&'a Definition, &'a HttpTool) {
    let found = import.definitions.iter().find(|definition| definition.name.as_str() == name);
    let names: Vec<_> = import.definitions.iter().map(|one| one.name.as_str()).collect();
    let definition = found.unwrap_or_else(|| panic!("{names:?}"));
    let Recipe::Http(tool) = &definition.runs else { panic!("{:?}", definition.runs) };
    (definition, tool)
}

#[test]
fn each_operation_is_a_tool_and_what_cannot_be_used_is_named() {
    let import = import(&document());
    let skipped: Vec<_> =
        import.skipped.iter().map(|one| (one.operation.as_str(), one.problem.as_str())).collect();
    assert_eq!(
        skipped,
        [
            ("PUT /pets/{id}", "security scheme `odd` is not supported"),
            ("PATCH /pets/{id}", "no body of application/octet-stream can be sent"),
            ("TRACE /pets/{id}", "the method TRACE cannot be used"),
        ]
    );
    let (list, http) = tool(&import, "pet_store_listPets");
    assert_eq!(list.version, "1.2.0");
    assert_eq!(list.safety_flags, ["external_call"]);
    assert_eq!(list.asks.hosts, ["eu.pets.example"]);
    assert_eq!(list.asks.secrets, ["pet_store.key"]);
    let args = json!({"limit": 5, "tags": ["a", "b c"]});
    let (_, request) = http.request(&args).unwrap();
    assert_eq!(request.url, "https://eu.pets.example/v1/pets?limit=5&tags=a,b%20c");
    let input = list.input_schema.to_value();
    assert_eq!(input["properties"]["limit"], json!({"type": "integer", "exclusiveMinimum": 0}));
}

#[test]
fn references_in_circles_stand_beside_the_schema_once() {
    let import = import(&document());
    let (add, http) = tool(&import, "pet_store_addPet");
    assert_eq!(add.safety_flags, ["external_call", "side_effect"]);
    let input = add.input_schema.to_value();
    assert_eq!(input["required"], json!(["body"]));
    assert_eq!(input["$defs"].as_object().unwrap().len(), 2);
    assert_eq!(add.problems(), [""; 0]);
    let args = json!({"body": {"name": null, "parent": {"name": "x"}}});
    let (operation, request) = http.request(&args).unwrap();
    assert_eq!(request.body.unwrap(), br#"{"name":null,"parent":{"name":"x"}}"#);
    assert_eq!(operation.credentials[0].secret, "pet_store.login");
}

#[test]
fn arguments_of_one_name_are_kept_apart() {
    let import = import(&document());
    let (_, http) = tool(&import, "pet_store_delete_pets_id");
    let args = json!({"id": "query", "path_id": "path"});
    let (_, request) = http.request(&args).unwrap();
    assert_eq!(request.url, "https://eu.pets.example/v1/pets/path?id=query");
}

#[test]
fn names_that_collide_or_look_alike_are_told_apart() {
    let mut document = document();
    let same = json!({"get": {"operationId": "LISTPETS"}});
    document["paths"]["/other"] = same.clone();
    document["paths"]["/oth-er"] = json!({"get": {}});
    document["paths"]["/oth_er"] = json!({"get": {}});
    document["paths"]["/cyrillic"] = json!({"get": {"operationId": "l\u{456}stPets"}});
    let import = import(&document);
    let mut names: Vec<_> =
        import.definitions.iter().map(|one| one.name.as_str().to_ascii_lowercase()).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "{names:?}");
    assert!(import.skipped.iter().any(|one| one.problem == "another operation has the same name"));
}

#[test]
fn hostile_documents_get_a_clear_error() {
    let mut metadata = document();
    metadata["servers"] = json!([{"url": "http://169.254.169.254/latest"}]);
    let told = problems(&metadata);
    assert!(told.iter().any(|one| one.contains("169.254.169.254")), "{told:?}");
    let mut files = document();
    files["paths"] = json!({"/x": {"post": {"requestBody": {"required": true, "content": {
        "application/json": {"schema": {"$ref": "file:///etc/passwd"}}}}}}});
    let told = problems(&files);
    assert!(told.iter().any(|one| one.contains("never read")), "{told:?}");
    let mut circle = document();
    circle["components"]["parameters"]["limit"] = json!({"$ref": "#/components/parameters/limit"});
    let import = import(&circle);
    assert!(import.skipped.iter().any(|one| one.problem.contains("leads to itself")), "{import:?}");
    assert!(problems(&json!({"swagger": "2.0"}))[0].contains("convert"));
    assert!(problems(&json!({"openapi": "4.0.0", "paths": {}}))[0].contains("neither 3.0 nor 3.1"));
    assert!(problems(&json!({"openapi": "3.1.0"}))[0].contains("paths: is missing"));
    assert!(problems(&json!([1]))[0].contains("not an OpenAPI document"));
    let mut relative = document();
    relative["servers"] = json!([{"url": "/v1"}]);
    assert!(problems(&relative).iter().any(|one| one.contains("--server")));
    let options = OpenapiOptions {
        url: Some("https://docs.example/spec/openapi.json".into()),
        ..OpenapiOptions::default()
    };
    let import = OpenapiImport::read(relative.to_string().as_bytes(), &options).unwrap();
    assert_eq!(import.definitions[0].asks.hosts, ["docs.example"]);
}

#[test]
fn references_that_multiply_end_soon() {
    // Each schema names the next ten times: a billion copies if they were copied.
    let mut schemas = serde_json::Map::new();
    for level in 0..12 {
        let next = json!({"$ref": format!("#/components/schemas/s{}", level + 1)});
        let fields: serde_json::Map<_, _> =
            (0..10).map(|field| (format!("f{field}"), next.clone())).collect();
        schemas.insert(format!("s{level}"), json!({"type": "object", "properties": fields}));
    }
    schemas.insert("s12".to_owned(), json!({"type": "string"}));
    let mut laughs = document();
    laughs["components"]["schemas"] = Value::Object(schemas);
    laughs["paths"] = json!({"/x": {"post": {"requestBody": {"content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/s0"}}}}}}});
    let import = import(&laughs);
    let size = import.definitions[0].text().as_str().len();
    assert!(size < 64 << 10, "{size}");
}

#[test]
fn schemas_above_the_limit_cost_their_operation_alone() {
    let mut large = document();
    large["components"]["schemas"]["Huge"] =
        json!({"type": "string", "enum": ["x".repeat(1 << 20)]});
    large["paths"]["/huge"] = json!({"post": {"operationId": "huge", "requestBody": {"content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/Huge"}}}}}});
    let import = import(&large);
    assert!(
        import.skipped.iter().any(|one| one.problem.contains("too large")),
        "{:?}",
        import.skipped
    );
    tool(&import, "pet_store_listPets");
}

#[test]
fn patterns_of_other_languages_do_not_cost_the_operation() {
    let mut document = document();
    document["paths"]["/p"] = json!({"get": {"operationId": "p", "parameters": [
        {"name": "q", "in": "query", "schema": {"type": "string", "pattern": "^(?!x).*$"}}]}});
    let import = import(&document);
    let (definition, _) = tool(&import, "pet_store_p");
    let input = definition.input_schema.to_value();
    assert_eq!(input["properties"]["q"], json!({"type": "string"}));
}

#[test]
fn versions_become_three_numbers() {
    for (text, expected) in [
        ("1.2.3", "1.2.3"),
        ("v3", "3.0.0"),
        ("2022-11-28", "2022.11.28"),
        ("1.0.0-beta.2", "1.0.0"),
        ("", "0.0.0"),
        ("latest", "0.0.0"),
    ] {
        assert_eq!(names::version(text).0, expected, "{text}");
    }
}

#[test]
fn a_document_of_tens_of_megabytes_is_imported_within_its_bounds() {
    let words = "Lists what there is. ".repeat(480);
    let operation = |number: usize| {
        json!({"get": {
            "operationId": format!("list{number}"), "description": words, "x-padding": words,
            "responses": {"200": {"description": "ok"}},
        }})
    };
    let mut large = document();
    large["paths"] = (0..2_000)
        .map(|number| (format!("/things/{number}"), operation(number)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let text = large.to_string();
    assert!(text.len() > 38 << 20, "{}", text.len());
    let import = OpenapiImport::read(text.as_bytes(), &OpenapiOptions::default()).unwrap();
    assert_eq!(import.definitions.len() + import.skipped.len(), 2_000);
    assert_eq!(import.skipped, []);
    let largest = import.definitions.iter().map(|one| one.text().as_str().len()).max();
    assert!(largest < Some(16 << 10), "a long description is cut: {largest:?}");
    let more = " ".repeat(65 << 20);
    let refused = OpenapiImport::read(more.as_bytes(), &OpenapiOptions::default()).unwrap_err();
    assert!(refused[0].contains("larger than"), "{refused:?}");
}
