use regorus::{Engine, Value};

use super::{guard::Test, *};
use crate::rego::{Bundle, compile};

/// Rules with a guard, and shapes that must not have one.
#[test]
fn a_condition_is_found_where_it_is_certain_and_nowhere_else() {
    let is = |path: &str, texts: &[&str]| shown(path, &Test::Is(owned(texts)));
    let cases = [
        ("r if input.a == \"x\"", is("a", &["x"])),
        ("r if \"x\" == input.a.b", is("a.b", &["x"])),
        ("r if input[\"a\"].b == \"x\"", is("a.b", &["x"])),
        ("r if input.a in {\"x\", \"y\"}", is("a", &["x", "y"])),
        ("r if input.a in [\"x\"]", is("a", &["x"])),
        ("r if \"x\" in input.a", shown("a", &Test::Holds("x".into()))),
        ("r if startswith(input.a, \"x\")", shown("a", &Test::Begins("x".into()))),
        ("r if endswith(input.a, \"x\")", shown("a", &Test::Ends("x".into()))),
        ("r contains \"m\" if input.a == \"x\"", is("a", &["x"])),
        ("r := 1 if input.a == \"x\"", is("a", &["x"])),
        ("r contains m if { input.a == \"x\"; m := input.b }", is("a", &["x"])),
        // Statements that cannot fail may precede, and the most selective condition is taken.
        ("r if { input.n > 3; not input.b; input.c != 1; input.a == \"x\" }", is("a", &["x"])),
        ("r if { \"y\" in input.b; input.a == \"x\" }", is("a", &["x"])),
        ("r if { input.b; not input.c in [\"y\"]; input.a == \"x\" }", is("a", &["x"])),
        // Statements that may fail, bind or reach elsewhere may not precede.
        ("r if { 1 / input.n == 1; input.a == \"x\" }", none()),
        ("r if { to_number(input.n) == 1; input.a == \"x\" }", none()),
        ("r if { other; input.a == \"x\" }", none()),
        ("r if { not other; input.a == \"x\" }", none()),
        ("r if { x := input.b; input.a == \"x\"; x }", none()),
        ("r if { some x in input.b; input.a == \"x\"; x }", none()),
        ("r if { every x in input.b { x == 1 }; input.a == \"x\" }", none()),
        ("r if { data.facts.x == 1; input.a == \"x\" }", none()),
        ("r if { print(input.b); input.a == \"x\" }", none()),
        ("r if { input.b[_] == \"y\"; input.a == \"x\" }", none()),
        ("r if { startswith(input.b, \"y\"); input.a == \"x\" }", {
            shown("b", &Test::Begins("y".into()))
        }),
        // Conditions on several paths, or on values other than strings.
        ("r if not input.a == \"x\"", none()),
        ("r if input.a != \"x\"", none()),
        ("r if input.a == input.b", none()),
        ("r if input.a == data.b", none()),
        ("r if input.a == 1", none()),
        ("r if input.a in {\"x\", 1}", none()),
        ("r if input.a in data.b", none()),
        ("r if startswith(\"x\", input.a)", none()),
        ("r if startswith(input.a, input.b)", none()),
        ("r if startswith(lower(input.a), \"x\")", none()),
        ("r if contains(input.a, \"x\")", none()),
        ("r if input[x] == \"x\"", none()),
        ("r if input.a[_] == \"x\"", none()),
        ("r if input.a[0] == \"x\"", none()),
        ("r if other.a == \"x\"", none()),
        ("r if input.a = \"x\"", none()),
        // Kinds of rules that always stay.
        ("r := 1", none()),
        ("default r := false", none()),
        ("f(x) if input.a == \"x\"", none()),
        ("f(x) if x.a == \"x\"", none()),
        ("r := 1 if input.a == \"x\" else := 2", none()),
        ("r := 1 if { input.a == \"x\" } else := 2 if { input.b == \"x\" }", none()),
        ("r[\"k\"] := 1 if input.a == \"x\"", none()),
        ("r[k] := 1 if { input.a == \"x\"; k := input.b }", none()),
        ("r.s := 1 if input.a == \"x\"", none()),
        ("r.s contains 1 if input.a == \"x\"", none()),
        // Rebound `input`.
        ("r if { input.a == \"x\"; input := 1 }", none()),
        ("r if { some input; input.a == \"x\" }", none()),
        ("r if { input.a == \"x\"; some input in [1] }", none()),
        ("r if { input.a == \"x\" with input.a as \"y\" }", none()),
    ];
    for (rule, expected) in cases {
        assert_eq!(condition(rule), expected, "{rule}");
    }
}

/// Bundles that change the meaning of guards have none at all.
#[test]
fn an_input_that_is_replaced_and_functions_of_the_same_name_are_left_alone() {
    let rules = |more: &str| format!("package ringfence\nimport rego.v1\n{more}\ndecision := 1\n");
    let plain = "r if input.a == \"x\"";
    assert!(subset::read(&mut engine(&rules(plain)), 1).is_some(), "the control");
    for more in [
        "s if r with input as {\"a\": \"x\"}",
        "s if r with input.a as \"x\"",
        "startswith(x, y) if x == y",
        "endswith := 1",
        "input.z := 1",
    ] {
        let text = rules(&format!("{plain}\n{more}"));
        let Some(mut engine) = parsed(&text) else { continue };
        assert!(subset::read(&mut engine, 1).is_none(), "{more}");
    }
    let text = format!("package ringfence\nimport data.lib.startswith\n{plain}\ndecision := 1\n");
    assert!(subset::read(&mut engine(&text), 1).is_none());
    let text = format!("package ringfence\nimport data.lib as endswith\n{plain}\ndecision := 1\n");
    assert!(subset::read(&mut engine(&text), 1).is_none());
}

#[test]
fn the_rest_stays_on_its_lines_and_one_rule_of_each_name_stays() {
    let text = "package ringfence
        # Why: \u{e9}.
        a contains \"\u{e9}1\" if input.a == \"1\" # one
        a contains \"2\" if {
            input.a == \"2\"
        }
        default b := false
        b if input.a == \"1\"
        b if input.a == \"2\"
        c := 1
        c := 1 if input.a == \"2\"
        decision := count(a)";
    let (whole, lookup) = subset::read(&mut engine(text), 1).unwrap();
    let lines = |document: &str| {
        let document = Value::from_json_str(document).unwrap();
        let mut engine = whole.subset(&lookup.find(&document).unwrap()).unwrap();
        let rules = engine.get_modules()[0].policy.iter();
        rules.map(|rule| rule.span().line).collect::<Vec<_>>()
    };
    assert_eq!(lines(r#"{"a":"1"}"#), [3, 7, 8, 10, 12]);
    assert_eq!(lines(r#"{"a":"2"}"#), [4, 7, 9, 10, 11, 12]);
    assert_eq!(lines(r#"{"a":"3"}"#), [3, 7, 8, 10, 12]);
}

/// The same over random rules and documents: every rule of the subset has the value that it has in
/// the whole bundle, or fails as it does there.
#[test]
fn some_rules_say_what_all_rules_say() {
    let (mut left_out, mut equal, mut failed) = (0, 0, 0);
    for seed in 0..160 {
        let mut dice = Dice(seed);
        let files = random::bundle(&mut dice);
        let (mut all, _) = compile(&Bundle::from_files(files.clone()).unwrap())
            .unwrap_or_else(|invalid| panic!("seed {seed}: {invalid}\n{files:#?}"));
        all.clear_execution_timer_config();
        let Some((whole, lookup)) = subset::read(&mut all, 1) else { continue };
        for _ in 0..12 {
            let text = random::document(&mut dice);
            let document = Value::from_json_str(&text).unwrap();
            let Some(needed) = lookup.find(&document) else { continue };
            let (count, of) = whole.count(&needed);
            left_out += of - count;
            let some = whole.subset(&needed).expect("what was parsed once is parsed again");
            for rule in random::RULES {
                let (expected, found) =
                    (value(&all, &document, rule), value(&some, &document, rule));
                assert_eq!(expected, found, "seed {seed}: {rule} about {text} by\n{files:#?}");
                *(if expected.is_ok() { &mut equal } else { &mut failed }) += 1;
            }
        }
    }
    assert!(left_out > 2_000 && equal > 2_000 && failed > 100, "{left_out} {equal} {failed}");
}

/// Value of a rule, undefined included; an error if it fails.
fn value(engine: &Engine, document: &Value, rule: &str) -> Result<Value, ()> {
    // A failed evaluation may leave state in the engine, so each evaluation has its own.
    let mut engine = engine.clone();
    engine.set_input(document.clone());
    match rule {
        "data" | "data.ringfence" => {
            let results = engine.eval_query(rule.to_owned(), false).map_err(drop)?;
            Ok(results.result.first().map_or(Value::Undefined, |r| r.expressions[0].value.clone()))
        }
        rule => match engine.eval_rule(rule.to_owned()) {
            Err(error) if error.to_string() == "not a valid rule path" => Ok(Value::from(rule)),
            other => other.map_err(drop),
        },
    }
}

fn condition(rule: &str) -> String {
    // A rule that cannot be parsed has no guard.
    let engine = parsed(&format!("package ringfence\nimport rego.v1\n{rule}\n"));
    let found = engine.and_then(|mut engine| guard::of(&engine.get_modules()[0].policy[0]));
    found.map_or_else(none, |guard| shown(&guard.path.join("."), &guard.test))
}

fn parsed(text: &str) -> Option<Engine> {
    let mut engine = Engine::new();
    engine.add_policy("rules.rego".to_owned(), text.to_owned()).ok()?;
    Some(engine)
}

fn engine(text: &str) -> Engine {
    parsed(text).expect(text)
}

fn shown(path: &str, test: &Test) -> String {
    format!("{path} {test:?}")
}

fn none() -> String {
    "none".to_owned()
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % sides as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.throw(from.len())]
    }
}

mod random;
