use std::{
    thread,
    time::{Duration, Instant},
};

use expect_test::expect;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn of(value: &Value) -> Json {
    Json::of(value).unwrap()
}

fn folder(schema: Value) -> Result<Schema, Vec<String>> {
    Schema::compile("input", &of(&schema), None)
}

fn accepts(schema: &Schema, value: Value) -> bool {
    schema.check(&of(&value)).is_ok()
}

const MODERN: &str = "https://json-schema.org/draft/2020-12/schema";

#[test]
fn the_draft_decides_what_a_keyword_means() {
    // A list under `items` is a tuple in draft-07 and invalid in 2020-12.
    let tuple = json!({"items": [{"type": "string"}, {"type": "integer"}]});
    let old = folder(tuple.clone()).unwrap();
    assert!(accepts(&old, json!(["a", 1])));
    assert!(!accepts(&old, json!([1, "a"])));
    assert!(Schema::compile_modern("input", &of(&tuple)).is_err());

    // `prefixItems` is a tuple in 2020-12 and ignored in draft-07.
    let tuple = json!({"prefixItems": [{"type": "string"}]});
    assert!(!accepts(&Schema::compile_modern("input", &of(&tuple)).unwrap(), json!([1])));
    assert!(accepts(&folder(tuple).unwrap(), json!([1])));

    // Keywords beside a reference are ignored in draft-07 and apply in 2020-12.
    let beside = json!({"definitions": {"a": {"type": "integer"}},
        "properties": {"x": {"$ref": "#/definitions/a", "maximum": 3}}});
    assert!(accepts(&folder(beside.clone()).unwrap(), json!({"x": 5})));
    assert!(!accepts(&Schema::compile_modern("input", &of(&beside)).unwrap(), json!({"x": 5})));
}

#[test]
fn a_format_is_asserted_as_its_draft_says() {
    let schema = |draft: &str| json!({"$schema": draft, "format": "date-time", "type": "string"});
    let old = folder(schema("http://json-schema.org/draft-07/schema#")).unwrap();
    assert!(accepts(&old, json!("2026-01-31T12:00:00Z")));
    assert!(!accepts(&old, json!("yesterday")));
    assert!(accepts(&folder(schema(MODERN)).unwrap(), json!("yesterday")));
}

#[test]
fn the_draft_is_told_by_the_schema_then_by_its_file_then_by_its_kind() {
    let old = of(&json!({"items": [{"type": "string"}]}));
    assert!(Schema::compile("input", &old, Some(MODERN)).is_err());
    let said = of(&json!({"$schema": "http://json-schema.org/draft-07/schema",
        "items": [{"type": "string"}]}));
    assert!(Schema::compile("input", &said, Some(MODERN)).is_ok());
    assert!(Schema::compile_modern("input", &said).is_ok());
    let other = json!({"$schema": "http://json-schema.org/draft-04/schema#"});
    expect![[r#"
        [
            "schema.json: input: `$schema` `http://json-schema.org/draft-04/schema#` is neither draft-07 nor 2020-12",
        ]
    "#]]
    .assert_debug_eq(&folder(other).unwrap_err());
}

#[test]
fn all_violations_are_named_with_their_place_and_without_the_value() {
    let schema = folder(json!({
        "type": "object",
        "properties": {
            "text": {"type": "string", "maxLength": 5},
            "a/b": {"type": "array", "items": {"type": "integer", "minimum": 1}},
            "style": {"enum": ["short", "long"]},
        },
        "required": ["text", "count"],
        "additionalProperties": false,
    }))
    .unwrap();
    let value = json!({"text": "a secret", "a/b": [1, 0, "x"], "style": "wide", "more": 1});
    let found = schema.check(&of(&value)).unwrap_err();
    let lines: Vec<String> =
        found.iter().map(|v| format!("{} {}: {}", v.pointer, v.keyword, v.message)).collect();
    expect![[r#"
        [
            " required: \"count\" is a required property",
            " additionalProperties: Additional properties are not allowed ('more' was unexpected)",
            "/a~1b/1 minimum: value is less than the minimum of 1",
            "/a~1b/2 type: value is not of type \"integer\"",
            "/style enum: value is not one of \"short\" or \"long\"",
            "/text maxLength: value is longer than 5 characters",
        ]
    "#]]
    .assert_debug_eq(&lines);
    assert!(!lines.join("").contains("secret"));
}

#[test]
fn violations_are_bounded_in_number_and_length() {
    let schema = folder(json!({"items": {"type": "integer"}})).unwrap();
    let found = schema.check(&of(&json!(vec!["x"; 10_000]))).unwrap_err();
    assert_eq!(found.len(), MAX_VIOLATIONS);
    let strict = folder(json!({"additionalProperties": false})).unwrap();
    let found = strict.check(&of(&json!({"x".repeat(100_000): 1}))).unwrap_err();
    assert!(found[0].message.chars().count() < 500);
}

#[test]
fn every_fault_of_a_schema_is_named() {
    let faults = folder(json!({"type": "strin", "properties": {"x": {"minLength": -1}, "y": 3}}));
    expect![[r#"
        [
            "schema.json: input: at /properties/x/minLength: -1 is less than the minimum of 0",
            "schema.json: input: at /properties/y: 3 is not of types \"boolean\", \"object\"",
            "schema.json: input: at /type: \"strin\" is not valid under any of the schemas listed in the 'anyOf' keyword",
        ]
    "#]]
    .assert_debug_eq(&faults.unwrap_err());
    for not_a_schema in [json!(true), json!([]), json!("x"), json!({"$schema": 7})] {
        assert!(folder(not_a_schema).is_err());
    }
}

#[test]
fn references_stay_within_the_schema() {
    let inside = json!({"$id": "https://example.com/s", "$defs": {"a b": {"$anchor": "named"}},
        "properties": {"x": {"$ref": "#/$defs/a%20b"}, "y": {"$ref": "https://example.com/s#named"}}});
    assert!(Schema::compile_modern("input", &of(&inside)).is_ok());
    for outside in [
        "http://127.0.0.1:9/x.json",
        "file:///etc/passwd",
        "other.json",
        "#/nowhere",
        "#missing",
        "http://json-schema.org/draft-07/schema#",
    ] {
        let problems = folder(json!({"properties": {"x": {"$ref": outside}}})).unwrap_err();
        assert!(problems[0].contains("does not lead to a place in this schema"), "{problems:?}");
    }
    // A nested document could give references another meaning.
    let nested = json!({"properties": {"x": {"$id": "https://example.com/other", "$ref": "#"}}});
    assert!(folder(nested).unwrap_err()[0].contains("at the top only"));
}

#[test]
fn patterns_cannot_be_slow_or_huge() {
    let slow = folder(json!({"pattern": "^(a+)+$"})).unwrap();
    quickly("a pattern with nested repetition", || {
        assert!(!accepts(&slow, json!(format!("{}!", "a".repeat(100_000)))));
    });
    for refused in ["(?=a)", "(a)\\1", "^.{0,404600}$", "((a{0,999}){0,999}){0,999}", "("] {
        quickly(refused, || assert!(folder(json!({"pattern": refused})).is_err(), "{refused}"));
    }
    let many: Vec<Value> = (0..100).map(|n| json!({"pattern": format!("a{n}")})).collect();
    assert!(folder(json!({"anyOf": many})).unwrap_err()[0].contains("patterns"));
}

/// Schema in which each level refers twice to the next.
fn doubling(levels: usize, wrap: impl Fn(Value) -> Value) -> Value {
    let level = |n: usize| {
        let next = json!({"$ref": format!("#/definitions/l{}", n + 1)});
        (format!("l{n}"), wrap(json!({"allOf": [next, next]})))
    };
    let mut definitions: serde_json::Map<String, Value> = (0..levels).map(level).collect();
    definitions.insert(format!("l{levels}"), json!({}));
    json!({"$ref": "#/definitions/l0", "definitions": definitions})
}

#[test]
fn references_that_multiply_or_run_in_circles_are_refused() {
    let circles = [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"definitions": {"a": {"not": {"$ref": "#/definitions/b"}},
            "b": {"if": {"$ref": "#/definitions/a"}}}, "$ref": "#/definitions/a"}),
        json!({"$schema": MODERN, "$dynamicAnchor": "x", "anyOf": [{"$dynamicRef": "#x"}]}),
    ];
    for circle in circles {
        assert!(folder(circle.clone()).unwrap_err()[0].contains("leads to itself"), "{circle}");
    }
    quickly("doubling in place", || {
        let problems = folder(doubling(40, |inner| inner)).unwrap_err();
        assert!(problems[0].contains("multiply"), "{problems:?}");
    });
    assert!(folder(doubling(5, |inner| inner)).is_ok());
}

#[test]
fn a_schema_that_grows_with_depth_checks_only_values_it_can_check_in_time() {
    let shared = json!({"allOf": [
        {"properties": {"x": {"$ref": "#"}}}, {"properties": {"x": {"$ref": "#"}}}]});
    let nested = |depth: usize| (0..depth).fold(json!({}), |inner, _| json!({"x": inner}));
    for schema in [shared, doubling(60, |inner| json!({"properties": {"x": inner}}))] {
        let schema = folder(schema).unwrap();
        quickly("values within bounds", || assert!(accepts(&schema, nested(5))));
        quickly("values beyond bounds", || {
            let found = schema.check(&of(&nested(60))).unwrap_err();
            assert!(found[0].message.contains("to be checked in time"), "{found:?}");
        });
    }
    // Control: an ordinary tree has hardly a bound.
    let tree =
        folder(json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}})).unwrap();
    assert!(tree.bounds.allow(Measure { depth: json::DEPTH, parts: 100_000 }));
    // Nor has a language of twenty kinds of expressions, for expressions of ordinary size.
    let kind = |n: usize| json!({"properties": {"op": {"const": n}, "left": {"$ref": "#"}, "right": {"$ref": "#"}}});
    let language = folder(json!({"anyOf": (0..20).map(kind).collect::<Vec<_>>()})).unwrap();
    let expression = json!({"op": 19, "left": {"op": 3, "left": {"op": 2}}, "right": {"op": 18}});
    quickly("an expression", || assert!(accepts(&language, expression)));
}

#[test]
fn many_schemas_that_refer_to_all_others_compile_quickly() {
    let all: serde_json::Map<String, Value> = (0..60)
        .map(|n| (format!("p{n}"), json!({"$ref": format!("#/definitions/d{n}")})))
        .collect();
    let definitions: serde_json::Map<String, Value> =
        (0..60).map(|n| (format!("d{n}"), json!({"properties": all}))).collect();
    let schema = json!({"properties": all, "definitions": definitions});
    quickly("sixty times sixty", || assert!(folder(schema).is_ok()));
}

#[test]
fn the_deepest_schemas_fit_the_smallest_stack() {
    // As many references as possible, each through as many levels as fit into one document.
    let properties = |inner: Value| json!({"properties": {"x": inner}});
    let tall = |inner: Value| (0..15).fold(inner, |inner, _| properties(inner));
    let negated = |inner: Value| properties((0..56).fold(inner, |inner, _| json!({"not": inner})));
    let chosen = |inner: Value| {
        properties((0..27).fold(inner, |inner, _| json!({"anyOf": [inner, {"type": "null"}]})))
    };
    // With `false` at the end every level reports an error.
    for (wrap, depth, last) in [
        (&tall as &dyn Fn(Value) -> Value, 60, json!({})),
        (&negated, 5, json!({})),
        (&chosen, 5, json!({})),
        (&chosen, 5, json!(false)),
    ] {
        let level = |n: usize| {
            let next = json!({"$ref": format!("#/definitions/l{}", n + 1)});
            (format!("l{n}"), wrap(next))
        };
        let mut definitions: serde_json::Map<String, Value> = (0..127).map(level).collect();
        definitions.insert("l127".to_owned(), json!({}));
        let good = last != json!(false);
        if !good {
            // The deepest level that values reach.
            definitions.insert("l4".to_owned(), last);
        }
        let source = of(&json!({"$ref": "#/definitions/l0", "definitions": definitions}));
        let value = of(&(0..depth).fold(json!({}), |inner, _| json!({"x": inner})));
        on_a_small_stack(move || {
            let schema = Schema::compile("input", &source, None).unwrap();
            assert_eq!(schema.check(&value).is_ok(), good);
        });
    }
}

#[test]
fn keywords_about_what_was_not_evaluated_fit_the_smallest_stack() {
    let level =
        |n: usize| (format!("l{n}"), json!({"allOf": [{"$ref": format!("#/$defs/l{}", n + 1)}]}));
    let mut definitions: serde_json::Map<String, Value> = (0..127).map(level).collect();
    definitions.insert("l127".to_owned(), json!({"properties": {"x": {}}}));
    let source = of(&json!({"$ref": "#/$defs/l0", "$defs": definitions,
        "unevaluatedProperties": false, "unevaluatedItems": false}));
    on_a_small_stack(move || {
        let schema = Schema::compile_modern("input", &source).unwrap();
        assert!(accepts(&schema, json!({"x": 1})));
        assert!(!accepts(&schema, json!({"y": 1})));
    });
}

/// Runs `work` on a stack of two megabytes, the default of runtimes.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
}

fn quickly(what: &str, work: impl FnOnce()) {
    let started = Instant::now();
    work();
    assert!(started.elapsed() < Duration::from_secs(10), "{what}: {:?}", started.elapsed());
}

/// Schemas made of everything that refers or applies, in any combination.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!({"type": "object"})),
        Just(json!(false)),
        prop::sample::select(vec![
            "#",
            "#/definitions/a",
            "#/definitions/b",
            "#/properties/x",
            "#n"
        ])
        .prop_map(|to| json!({"$ref": to})),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let keyword = prop::sample::select(vec![
            "not",
            "if",
            "then",
            "items",
            "contains",
            "additionalProperties",
            "propertyNames",
            "unevaluatedProperties",
            "unevaluatedItems",
        ]);
        let lists = prop::sample::select(vec!["allOf", "anyOf", "oneOf"]);
        let maps = prop::sample::select(vec!["properties", "definitions", "patternProperties"]);
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            (keyword, inner.clone()).prop_map(|(keyword, schema)| json!({keyword: schema})),
            (lists, two.clone()).prop_map(|(keyword, (a, b))| json!({keyword: [a, b]})),
            (maps, two.clone()).prop_map(|(keyword, (a, b))| json!({keyword: {"x": a, "b": b}})),
            two.prop_map(
                |(a, b)| json!({"definitions": {"a": a, "b": b}, "$ref": "#/definitions/a"})
            ),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_schema_hangs_or_panics(schema in any_schema(), depth in 0_usize..60) {
        let value = (0..depth).fold(json!({"x": 1}), |inner, n| match n % 3 {
            0 => json!([inner]),
            _ => json!({"x": inner, "b": 2}),
        });
        quickly(&schema.to_string(), || {
            if let Ok(compiled) = folder(schema.clone()) {
                let _ = compiled.check(&of(&value));
            }
        });
    }

    #[test]
    fn no_text_is_a_schema_that_panics(text in "\\PC{0,40}") {
        let _ = folder(json!({"pattern": text.clone(), "$ref": text.clone()}));
        let _ = folder(json!({"patternProperties": {text.clone(): {}}, "$id": text}));
    }
}

#[test]
fn a_value_is_measured_by_its_brackets_and_commas_outside_of_text() {
    let measured = |text: &str| measure(text);
    assert_eq!(measured("1"), Measure { depth: 0, parts: 1 });
    assert_eq!(measured(r#"{"a":[1,"[{,\"[",{}],"b":2}"#), Measure { depth: 3, parts: 7 });
}
