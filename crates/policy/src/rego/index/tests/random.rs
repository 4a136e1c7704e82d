//! Random rules of many shapes, and documents for them.

use std::fmt::Write;

use super::Dice;

/// Rules that are compared. Some bundles lack some of them.
pub(super) const RULES: &[&str] = &[
    "data",
    "data.ringfence",
    "data.ringfence.decision",
    "data.ringfence.s0",
    "data.ringfence.c0",
    "data.ringfence.s1",
    "data.ringfence.c1",
    "data.ringfence.b1",
    "data.ringfence.o1",
    "data.ringfence.e1",
    "data.lib.s0",
    "data.lib.c0",
];

const TEXTS: &[&str] = &["u", "v", "w", "vv", "uv", ""];
const PLACES: &[&str] = &["a", "a", "b.c", "b[\"c\"]", "list", "n", "missing"];

/// Condition, usually one that can be looked up.
fn condition(dice: &mut Dice) -> String {
    let (place, text, other) = (dice.pick(PLACES), dice.pick(TEXTS), dice.pick(TEXTS));
    match dice.throw(16) {
        0..6 => format!("input.{place} == \"{text}\""),
        6 => format!("\"{text}\" == input.{place}"),
        7 => format!("input.{place} in {{\"{text}\", \"{other}\"}}"),
        8 => format!("input.{place} in [\"{text}\"]"),
        9 | 10 => format!("\"{text}\" in input.{place}"),
        11 => format!("startswith(input.{place}, \"{text}\")"),
        12 => format!("endswith(input.a, \"{text}\")"),
        13 => format!("input.n > {}", dice.throw(3)),
        14 => format!("not input.{place} == \"{text}\""),
        _ => format!("input.{place}"),
    }
}

/// Any other statement; `below` are rules that may be named.
fn statement(dice: &mut Dice, below: &[&str]) -> String {
    let (place, text) = (dice.pick(PLACES), dice.pick(TEXTS));
    if !below.is_empty() && dice.throw(3) == 0 {
        let name = dice.pick(below);
        return match dice.throw(5) {
            0 => format!("not {name}"),
            1 => format!("{name} == \"{text}\""),
            2 => format!("count({name}) > 0"),
            3 => format!("\"{text}\" in {name}"),
            _ => name.to_owned(),
        };
    }
    // The lowest level has no function to call.
    match dice.throw(if below.is_empty() { 12 } else { 14 }) {
        0 => format!("x := input.{place}; x != \"{text}\""),
        1 => format!("some y in input.{place}; y == \"{text}\""),
        2 => "1 / input.n > 0".to_owned(),
        3 => format!("to_number(input.{place}) >= 0"),
        4 => format!("input.list[_] == \"{text}\""),
        5 => "input.b[k] == \"v\"".to_owned(),
        6 => format!("every z in input.list {{ z == \"{text}\" }}"),
        7 => format!("count([z | some z in input.list; z == \"{text}\"]) > 0"),
        8 => format!("data.facts.k == input.{place}"),
        9 => format!("facts.k == \"{text}\""),
        10 => format!("input.{place} == input.a"),
        11 => format!("lower(input.{place}) == \"{text}\""),
        12 => format!("f0(input.{place})"),
        _ => format!("not f0(input.{place})"),
    }
}

/// Body with a few of both, in any order, with different variables.
fn body(dice: &mut Dice, below: &[&str]) -> String {
    let mut statements = Vec::new();
    let mut is_used = false;
    for _ in 0..=dice.throw(3) {
        // At most one statement binds variables, as none may be bound twice.
        let is_condition = is_used || dice.throw(3) > 0;
        statements.push(if is_condition { condition(dice) } else { statement(dice, below) });
        is_used |= !is_condition;
    }
    statements.join("; ")
}

fn rule(dice: &mut Dice, level: usize, below: &[&str]) -> String {
    let (body, text) = (body(dice, below), dice.pick(TEXTS));
    let head = match dice.throw(12) {
        0..3 => format!("s{level} contains \"{text}\""),
        3 => format!("s{level} contains input.a"),
        4 | 5 => format!("c{level} := \"v\""),
        6 => format!("c{level} := \"{text}\""),
        7 if level == 1 => "b1".to_owned(),
        8 if level == 1 => format!("o1[\"{text}\"] := 1"),
        9 if level == 1 => "o1[input.a] := 1".to_owned(),
        10 if level == 1 => {
            let other = self::body(dice, below);
            return format!("e1 := 1 if {{ {body} }} else := 2 if {{ {other} }}\n");
        }
        11 => format!("f{level}(q) := \"{text}\""),
        _ => format!("s{level} contains {{\"k\": \"{text}\"}}"),
    };
    let lines = if dice.throw(2) == 0 { body } else { body.replace("; ", "\n\t") };
    format!("{head} if {{ {lines} }} # why\n")
}

fn level(dice: &mut Dice, level: usize, below: &[&str]) -> String {
    let mut text: String = (0..8 + dice.throw(8)).map(|_| rule(dice, level, below)).collect();
    // Rules that are named elsewhere must exist.
    let _ = writeln!(text, "s{level} contains \"u\" if input.a == \"v\"");
    let _ = writeln!(text, "c{level} := \"v\" if input.b.c == \"v\"");
    let _ = writeln!(text, "f{level}(q) := \"v\" if q == \"w\"");
    if dice.throw(2) == 0 {
        let _ = writeln!(text, "default c{level} := \"w\"");
    }
    text
}

/// Two packages, the first in two files, and some data.
pub(super) fn bundle(dice: &mut Dice) -> Vec<(&'static str, String)> {
    let head = "import rego.v1\nimport data.facts\n";
    let lib = format!("package lib\n{head}{}", level(dice, 0, &[]));
    let below = ["s0", "c0", "lib.s0", "lib.c0", "data.lib.c0", "data.ringfence.s0"];
    let first = format!("package ringfence\n{head}{}", level(dice, 0, &[]));
    let second = format!(
        "package ringfence\n{head}import data.lib\n{}b1 if c0 == \"v\"\no1[\"k\"] := 1 if b1\n{}",
        level(dice, 1, &below),
        "decision := {\"s\": s1, \"l\": lib.s0, \"c\": [c | c := c1]}\n",
    );
    let facts = r#"{"facts": {"k": "v"}}"#.to_owned();
    vec![("a.rego", first), ("b.rego", second), ("data.json", facts), ("lib/c.rego", lib)]
}

/// Document for the rules, with some values of unlikely kinds and some missing.
pub(super) fn document(dice: &mut Dice) -> String {
    let mut fields = Vec::new();
    let text = |dice: &mut Dice| format!("\"{}\"", dice.pick(TEXTS));
    let list = |dice: &mut Dice| {
        let items: Vec<_> = (0..dice.throw(4)).map(|_| text(dice)).collect();
        format!("[{}]", items.join(","))
    };
    for name in ["a", "b", "list", "n"] {
        let value = match (dice.throw(12), name) {
            (0, _) => continue,
            (1, _) => text(dice),
            (2, _) => list(dice),
            (3, _) => format!("{{\"c\":{},\"d\":{}}}", text(dice), list(dice)),
            (4, _) => dice.pick(&["null", "true", "false", "0", "1.0"]).to_owned(),
            (_, "b") => format!("{{\"c\":{}}}", text(dice)),
            (_, "list") => list(dice),
            (_, "n") => dice.throw(4).to_string(),
            _ => text(dice),
        };
        fields.push(format!("\"{name}\":{value}"));
    }
    format!("{{{}}}", fields.join(","))
}
