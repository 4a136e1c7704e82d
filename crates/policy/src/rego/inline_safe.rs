//! Check whether rules may be evaluated inline, on the caller's thread.
//!
//! The evaluator's timer stops evaluations of many steps. It stops neither a single long step nor
//! a stack overflow, so both are ruled out statically: every called function takes time linear in
//! the size of its arguments, and the rules nest no deeper than fits on the smallest stack. Other
//! rules are evaluated by the worker threads.

use std::collections::{BTreeMap, BTreeSet};

use regorus::unstable::{BUILTINS, Expr, Module, Ref, Rule};

use super::{
    check,
    syntax::{self, Found, Path},
};

/// Nesting limit of rules, statements and expressions, counted together. A test holds it against the
/// stack.
const MAX_LEVELS: usize = 48;

/// Built-in functions that take time linear in the size of their arguments.
const LINEAR_FUNCTIONS: &[&str] = &[
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

/// Built-in functions that are inline-safe if their first argument is a short plain pattern.
const PATTERN_FUNCTIONS: &[&str] = &["glob.match", "regex.match"];
/// Length limit of such a pattern.
const MAX_PATTERN_BYTES: usize = 64;

/// Whether all rules of these modules may be evaluated inline.
pub(super) fn are_inline_safe(modules: &[Ref<Module>]) -> bool {
    calls_are_safe(modules) && deepest(modules).is_some_and(|levels| levels <= MAX_LEVELS)
}

fn calls_are_safe(modules: &[Ref<Module>]) -> bool {
    let mut is_safe = true;
    for module in modules {
        syntax::module(module, &mut |found, _| match found {
            Found::Call { function, arguments } => {
                is_safe &= is_inline_safe(function.as_ref(), arguments)
            }
            Found::TooDeep => is_safe = false,
            Found::Name(_)
            | Found::With(_)
            | Found::Constant(_)
            | Found::Statement
            | Found::Level(_) => {}
        });
    }
    is_safe
}

/// Whether a call is inline-safe. For functions of the bundle, their own bodies are checked.
fn is_inline_safe(function: Option<&Path>, arguments: &[Ref<Expr>]) -> bool {
    let Some(name) = function.map(|path| path.names.join(".")) else { return false };
    if PATTERN_FUNCTIONS.contains(&name.as_str()) {
        return arguments.first().is_some_and(|pattern| is_plain(pattern));
    }
    LINEAR_FUNCTIONS.contains(&name.as_str()) || !BUILTINS.contains_key(name.as_str())
}

/// Whether a pattern has no repetitions and classes, which make a small pattern a large automaton.
fn is_plain(pattern: &Expr) -> bool {
    let plain = |text: String| text.len() <= MAX_PATTERN_BYTES && !text.contains(['{', '\\']);
    syntax::literal(pattern).is_some_and(plain)
}

/// Rule by name, with all its definitions.
#[derive(Debug, Default)]
struct Named {
    /// Levels of its own.
    levels: usize,
    needs: BTreeSet<Vec<String>>,
}

type Rules = BTreeMap<Vec<String>, Named>;

/// Deepest nesting of an evaluation; `None` if rules may depend on each other in a cycle.
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
        // The head names the rule itself. A rule that needs itself fails at the second level.
        named.needs.remove(&name);
    }
    let mut known = BTreeMap::new();
    rules.keys().try_fold(0, |most, name| Some(most.max(depth(name, &rules, &mut known)?)))
}

/// Own levels of a rule and the rules that it names.
fn weigh(module: &Module, rule: &Rule, rules: &Rules) -> (usize, BTreeSet<Vec<String>>) {
    let (mut statements, mut level, mut needs) = (1, 0, BTreeSet::new());
    syntax::rule(rule, &mut |found, _| match found {
        // Each statement may loop over the following ones.
        Found::Statement => statements += 1,
        Found::Level(depth) => level = level.max(depth),
        Found::Name(path) => needs.extend(meant(module, &path, rules)),
        Found::Call { .. } | Found::With(_) | Found::Constant(_) | Found::TooDeep => {}
    });
    (statements + level, needs)
}

/// Rules that a name can refer to: those beneath it and those that contain it.
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

/// Depth by rule; `None` while it is being computed.
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

/// Name with its package; for a head with a computed part, the part before it.
fn name(module: &Module, rule: &Rule) -> Option<Vec<String>> {
    Some([check::package(module), syntax::path(syntax::refr(rule))?.names].concat())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use regorus::Value;

    use super::*;
    use crate::rego::{Bundle, compile, workers};

    /// Half of the stack of a server thread.
    const STACK: usize = 512 << 10;

    fn engine(rules: &str) -> regorus::Engine {
        let text = format!("package ringfence\nimport rego.v1\n{rules}");
        compile(&Bundle::from_files([("rules.rego", text)]).unwrap()).unwrap().0
    }

    fn is_inline_safe(rules: &str) -> bool {
        are_inline_safe(engine(rules).get_modules())
    }

    #[test]
    fn rules_that_may_take_long_in_one_step_are_not_inline_safe() {
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
            assert_eq!(is_inline_safe(rules), expected, "{rules}");
        }
        let (mut built_in, _) = compile(&Bundle::built_in()).unwrap();
        assert!(are_inline_safe(built_in.get_modules()));
    }

    #[test]
    fn rules_that_need_each_other_in_a_circle_or_all_of_the_data_are_not_inline_safe() {
        assert!(!is_inline_safe("decision if a\na if b\nb if a"));
        let all = "decision if data.ringfence[input.args.x]\na if data[input.args.x]";
        assert!(!is_inline_safe(all));
        assert!(is_inline_safe("decision if data.facts[input.args.x]"), "the control");
    }

    /// The deepest inline-safe rules of each shape are evaluated on half of the stack of a server
    /// thread; a stack overflow ends this test.
    #[test]
    fn the_deepest_rules_that_are_inline_safe_fit_on_a_small_stack() {
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
        for (shape, most) in
            shapes.into_iter().zip([MAX_LEVELS, MAX_LEVELS, MAX_LEVELS, MAX_LEVELS, 12])
        {
            let levels = (1..=most).take_while(|levels| is_inline_safe(&shape(*levels))).last();
            let rules = shape(levels.unwrap());
            let mut engine = engine(&rules);
            let evaluate = move || workers::evaluate(&mut engine, Value::new_object());
            let small = thread::Builder::new().stack_size(STACK).spawn(evaluate).unwrap();
            assert_eq!(small.join().unwrap().unwrap(), Value::from(true), "{rules}");
        }
    }
}
