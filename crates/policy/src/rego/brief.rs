//! Whether rules may be evaluated on the thread of whoever asks.
//!
//! The evaluator's clock stops what takes many steps. It does not stop a single step that takes
//! long, nor a stack that runs out, so both are ruled out ahead: every function that is called
//! takes about as long as its arguments are large, and the rules that need each other nest no
//! deeper than fits on the smallest stack. What is not surely brief is for the worker threads.

use std::collections::{BTreeMap, BTreeSet};

use regorus::unstable::{BUILTINS, Expr, Module, Ref, Rule};

use super::{
    check,
    syntax::{self, Found, Path},
};

/// The deepest nesting of rules, statements and expressions, all counted together. A test holds it
/// against the stack.
const LEVELS: usize = 48;

/// Built-in functions that take about as long as their arguments are large.
const BRIEF: &[&str] = &[
    "abs",
    "array.concat",
    "array.reverse",
    "array.slice",
    "ceil",
    "concat",
    "contains",
    "count",
    "endswith",
    "floor",
    "format_int",
    "indexof",
    "is_array",
    "is_boolean",
    "is_null",
    "is_number",
    "is_object",
    "is_set",
    "is_string",
    "lower",
    "max",
    "min",
    "net.cidr_contains",
    "object.get",
    "object.keys",
    "print",
    "round",
    "semver.compare",
    "semver.is_valid",
    "sort",
    "split",
    "sprintf",
    "startswith",
    "strings.any_prefix_match",
    "strings.any_suffix_match",
    "substring",
    "sum",
    "time.clock",
    "time.date",
    "time.parse_rfc3339_ns",
    "time.weekday",
    "to_number",
    "trim",
    "trim_left",
    "trim_prefix",
    "trim_right",
    "trim_space",
    "trim_suffix",
    "type_name",
    "upper",
];

/// Built-in functions that are brief if their first argument is a short plain pattern.
const BY_PATTERN: &[&str] = &["glob.match", "regex.match"];
/// The longest pattern.
const PATTERN_BYTES: usize = 64;

/// Whether all of these rules are.
pub(super) fn are_brief(modules: &[Ref<Module>]) -> bool {
    calls_are_brief(modules) && deepest(modules).is_some_and(|levels| levels <= LEVELS)
}

fn calls_are_brief(modules: &[Ref<Module>]) -> bool {
    let mut brief = true;
    for module in modules {
        syntax::module(module, &mut |found, _| match found {
            Found::Call { function, arguments } => brief &= is_brief(function.as_ref(), arguments),
            Found::TooDeep => brief = false,
            Found::Name(_)
            | Found::With(_)
            | Found::Constant(_)
            | Found::Statement
            | Found::Level(_) => {}
        });
    }
    brief
}

/// A function of the bundle is as brief as what it calls in turn.
fn is_brief(function: Option<&Path>, arguments: &[Ref<Expr>]) -> bool {
    let Some(name) = function.map(|path| path.names.join(".")) else { return false };
    if BY_PATTERN.contains(&name.as_str()) {
        return arguments.first().is_some_and(|pattern| is_plain(pattern));
    }
    BRIEF.contains(&name.as_str()) || !BUILTINS.contains_key(name.as_str())
}

/// Repetitions and classes of letters make a small pattern a large machine.
fn is_plain(pattern: &Expr) -> bool {
    let plain = |text: String| text.len() <= PATTERN_BYTES && !text.contains(['{', '\\']);
    syntax::literal(pattern).is_some_and(plain)
}

/// A rule by name, with all that define it.
#[derive(Debug, Default)]
struct Named {
    /// What it adds to the depth itself.
    levels: usize,
    needs: BTreeSet<Vec<String>>,
}

type Rules = BTreeMap<Vec<String>, Named>;

/// How deep evaluation can nest; none if rules may need each other in a circle.
fn deepest(modules: &[Ref<Module>]) -> Option<usize> {
    let mut rules = Rules::new();
    let defined = || modules.iter().flat_map(|m| m.policy.iter().map(move |rule| (m, rule)));
    for (module, rule) in defined() {
        rules.entry(name(module, rule)?).or_default();
    }
    for (module, rule) in defined() {
        let name = name(module, rule)?;
        let (levels, needs) = weigh(module, rule, &rules);
        let named = rules.get_mut(&name)?;
        named.levels = named.levels.max(levels);
        named.needs.extend(needs);
        // The head names the rule itself. One whose body does so as well fails at the second turn.
        named.needs.remove(&name);
    }
    let mut known = BTreeMap::new();
    rules.keys().try_fold(0, |most, name| Some(most.max(depth(name, &rules, &mut known)?)))
}

/// Its own levels and the rules that it names.
fn weigh(module: &Module, rule: &Rule, rules: &Rules) -> (usize, BTreeSet<Vec<String>>) {
    let (mut statements, mut level, mut needs) = (1, 0, BTreeSet::new());
    syntax::rule(rule, &mut |found, _| match found {
        // Each may loop over what follows.
        Found::Statement => statements += 1,
        Found::Level(depth) => level = level.max(depth),
        Found::Name(path) => needs.extend(meant(module, &path, rules)),
        Found::Call { .. } | Found::With(_) | Found::Constant(_) | Found::TooDeep => {}
    });
    (statements + level, needs)
}

/// The rules that a name can mean: those beneath it and those that it lies in.
fn meant(module: &Module, path: &Path, rules: &Rules) -> Vec<Vec<String>> {
    let own = [check::package(module), path.names.clone()].concat();
    let all = [own, path.names.clone()].into_iter();
    let mut found = Vec::new();
    for name in all.chain(check::imported(path, &module.imports)) {
        let beneath = rules.range(name.clone()..).map(|(rule, _)| rule);
        found.extend(beneath.take_while(|rule| rule.starts_with(&name)).cloned());
        let above = (1..name.len()).map(|length| name[..length].to_vec());
        found.extend(above.filter(|rule| rules.contains_key(rule)));
    }
    found
}

/// Memory of depths; what is being looked at is there without one.
type Known = BTreeMap<Vec<String>, Option<usize>>;

fn depth(name: &[String], rules: &Rules, known: &mut Known) -> Option<usize> {
    if let Some(depth) = known.get(name) {
        return *depth;
    }
    known.insert(name.to_vec(), None);
    let named = rules.get(name)?;
    let mut most = 0;
    for need in &named.needs {
        most = most.max(depth(need, rules, known)?);
    }
    known.insert(name.to_vec(), Some(most + named.levels));
    Some(most + named.levels)
}

/// With its package; of a head with a computed part, what is ahead of it.
fn name(module: &Module, rule: &Rule) -> Option<Vec<String>> {
    Some([check::package(module), syntax::path(syntax::refr(rule))?.names].concat())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use regorus::Value;

    use super::*;
    use crate::rego::{Bundle, compile, workers};

    /// Half of what a thread of the server has.
    const STACK: usize = 512 << 10;

    fn engine(rules: &str) -> regorus::Engine {
        let text = format!("package ringfence\nimport rego.v1\n{rules}");
        compile(&Bundle::from_files([("rules.rego", text)]).unwrap()).unwrap().0
    }

    fn is_brief(rules: &str) -> bool {
        are_brief(engine(rules).get_modules())
    }

    #[test]
    fn rules_that_may_take_long_in_one_step_are_not_brief() {
        for (rules, expected) in [
            ("decision := true", true),
            ("decision if startswith(lower(input.args.path), \"notes/\")", true),
            ("decision if f(input.args.x)\nf(x) if count(x) > 1", true),
            ("decision if f(input.args.x)\nf(x) if replace(x, input.args.y, \"a\") != x", false),
            ("decision if json.unmarshal(input.args.x) == 1", false),
            ("decision if regex.match(\"^a.*b$\", input.args.x)", true),
            ("decision if regex.match(\"a{1,1000}\", input.args.x)", false),
            ("decision if regex.match(input.args.y, input.args.x)", false),
            ("decision if glob.match(\"*.md\", [\"/\"], input.args.x)", true),
            ("decision if glob.match(input.args.y, [], input.args.x)", false),
        ] {
            assert_eq!(is_brief(rules), expected, "{rules}");
        }
        let (mut built_in, _) = compile(&Bundle::built_in()).unwrap();
        assert!(are_brief(built_in.get_modules()));
    }

    #[test]
    fn rules_that_need_each_other_in_a_circle_or_all_of_the_data_are_not_brief() {
        assert!(!is_brief("decision if a\na if b\nb if a"));
        let all = "decision if data.ringfence[input.args.x]\na if data[input.args.x]";
        assert!(!is_brief(all));
        assert!(is_brief("decision if data.facts[input.args.x]"), "the control");
    }

    /// The deepest rules of each shape that count as brief are evaluated on half of the stack of a
    /// thread of the server: one that runs out ends this test.
    #[test]
    fn the_deepest_rules_that_are_brief_fit_on_a_small_stack() {
        let row = |levels: usize| {
            let rules: String = (1..levels).map(|i| format!("r{i} := r{}\n", i - 1)).collect();
            format!("r0 := true\n{rules}decision := r{}\n", levels - 1)
        };
        let functions = |levels: usize| {
            let one = |i: usize| format!("f{i}(x) := [y | y := f{}(x)][0]\n", i - 1);
            let rules: String = (1..levels).map(one).collect();
            format!("f0(x) := x\n{rules}decision := f{}(true)\n", levels - 1)
        };
        let loops = |levels: usize| {
            let rules: String = (0..levels).map(|i| format!("some x{i} in [true]\n")).collect();
            format!("decision if {{\n{rules}}}\n")
        };
        let sum = |levels: usize| format!("decision := 1{} > 0\n", " + 1".repeat(levels));
        let every = |levels: usize| {
            let (open, close) = ("every x in [1] { ".repeat(levels), " }".repeat(levels));
            format!("decision if {{ {open}x == 1{close} }}\n")
        };
        let shapes: [&dyn Fn(usize) -> String; 5] = [&row, &functions, &loops, &sum, &every];
        for (shape, most) in shapes.into_iter().zip([LEVELS, LEVELS, LEVELS, LEVELS, 12]) {
            let levels = (1..=most).take_while(|levels| is_brief(&shape(*levels))).last();
            let rules = shape(levels.unwrap());
            let mut engine = engine(&rules);
            let evaluate = move || workers::evaluate(&mut engine, Value::new_object());
            let small = thread::Builder::new().stack_size(STACK).spawn(evaluate).unwrap();
            assert_eq!(small.join().unwrap().unwrap(), Value::from(true), "{rules}");
        }
    }
}
