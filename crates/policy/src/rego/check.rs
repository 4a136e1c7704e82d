//! Static check of rules before they are in force.
//!
//! The evaluator's timer is read between steps. This check refuses what that timer cannot stop:
//! recursive functions, and built-in functions with large results from small arguments. It also
//! refuses sources of non-determinism.

use std::collections::{BTreeMap, BTreeSet};

use regorus::unstable::{BUILTINS, Expr, Import, Module, Ref, Rule, RuleHead, Span};

use super::{
    bundle::TEST,
    problem::Problem,
    syntax::{self, Found, Path},
};

/// Rules in a bundle. Each may depend on the previous one, and each level takes stack.
pub(super) const MAX_RULES: usize = 1000;
/// Digits in a `sprintf` width.
const MAX_WIDTH_DIGITS: usize = 3;

/// Refused built-in functions with the reason.
const REFUSED: &[(&str, &str)] = &[
    ("http.send", "rules cannot reach the network"),
    ("net.lookup_ip_addr", "rules cannot reach the network"),
    ("opa.runtime", "rules see the document and nothing else"),
    ("rand.intn", "the same document must have the same decision"),
    ("time.now_ns", "the same document must have the same decision: use input.time"),
    ("uuid.rfc4122", "the same document must have the same decision"),
    ("bits.lsh", "a small number can make a huge one"),
    ("net.cidr_expand", "a short text can make a huge list: use net.cidr_contains"),
    ("numbers.range", "two small numbers can make a huge list"),
    ("numbers.range_step", "three small numbers can make a huge list"),
    ("test.sleep", "rules do not wait"),
    ("units.parse", "it can make numbers that are not finite"),
    ("units.parse_bytes", "it can make numbers that are not finite"),
];

/// Problems of these modules taken together.
pub(super) fn problems(modules: &[Ref<Module>]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let functions = Functions::of(modules);
    for module in modules {
        syntax::module(module, &mut |found, span| {
            if let Some(message) = refusal(&found, module, &functions) {
                problems.push(at(span, message));
            }
        });
    }
    problems.extend(functions.recursive());
    let (tests, rules): (Vec<_>, Vec<_>) = modules.iter().partition(|module| is_test(module));
    for (kind, modules) in [("rules", rules), ("tests and their helpers", tests)] {
        if modules.iter().map(|module| module.policy.len()).sum::<usize>() > MAX_RULES {
            problems.push(Problem::in_file(".", format!("more than {MAX_RULES} {kind}")));
        }
    }
    problems
}

/// Whether a module holds tests, by the name of its file.
pub(super) fn is_test(module: &Module) -> bool {
    module.package.refr.span().source.file().ends_with(TEST)
}

fn at(span: &Span, message: impl Into<String>) -> Problem {
    Problem::at(span.source.file(), span.line, message)
}

fn refusal(found: &Found<'_>, module: &Module, functions: &Functions) -> Option<String> {
    match found {
        Found::Name(path) => refused_name(path, &module.imports),
        Found::Call { function: None, .. } => Some("a function must be called by name".to_owned()),
        Found::Call { function: Some(path), arguments } => {
            if !path.whole {
                return Some("a function must be called by name".to_owned());
            }
            let name = path.names.join(".");
            if name == "sprintf" {
                return format_refusal(arguments).map(str::to_owned);
            }
            if let Some(message) = product_refusal(&name, arguments) {
                return Some(message);
            }
            let known = functions.resolve(path, module).next().is_some()
                || BUILTINS.contains_key(name.as_str())
                || name == "print";
            (!known).then(|| format!("no function `{name}`"))
        }
        Found::With(target) => {
            let of_input = target.as_ref().is_some_and(|path| path.names[0] == "input");
            (!of_input && !is_test(module))
                .then(|| "outside of tests, `with` can only replace `input`".to_owned())
        }
        Found::Constant(_) | Found::Statement | Found::Level(_) => None,
        Found::TooDeep => Some(format!("nested more than {} deep", syntax::DEPTH)),
    }
}

/// Refused function that a path names, directly or through an import.
fn refused_name(path: &Path, imports: &[Import]) -> Option<String> {
    let begins = |names: &[String], name: &str| {
        let parts: Vec<_> = name.split('.').collect();
        names.len() >= parts.len() && names.iter().zip(&parts).all(|(one, other)| one == other)
    };
    let imported: Vec<_> = imported(path, imports).collect();
    let (name, why) = REFUSED.iter().find(|(name, _)| {
        begins(&path.names, name) || imported.iter().any(|names| begins(names, name))
    })?;
    Some(format!("`{name}` is not available: {why}"))
}

/// Refusal of a wide `sprintf` format: `sprintf("%999999999d", …)` would allocate a gigabyte.
fn format_refusal(arguments: &[Ref<Expr>]) -> Option<&'static str> {
    let Some(format) = arguments.first().and_then(|first| syntax::literal(first)) else {
        return Some("the format of `sprintf` must be written in the rule");
    };
    let digits = |text: &str| {
        text.chars().take_while(|c| !c.is_alphabetic()).filter(char::is_ascii_digit).count()
    };
    let wide = format.split('%').skip(1).any(|verb| digits(verb) > MAX_WIDTH_DIGITS);
    wide.then_some("the format of `sprintf` has a width of more than three digits")
}

/// Refusal of a replacement whose text and replacement both come from the document: replacing each
/// letter of a megabyte by a megabyte is a single step that no timer stops and no memory holds.
fn product_refusal(name: &str, arguments: &[Ref<Expr>]) -> Option<String> {
    let is_literal = |index: usize| {
        arguments.get(index).is_some_and(|argument| syntax::literal(argument).is_some())
    };
    match name {
        "replace" | "regex.replace" if !is_literal(0) && !is_literal(2) => {
            Some(format!("the text or the replacement of `{name}` must be written in the rule"))
        }
        "concat" if !is_literal(0) => {
            Some("the delimiter of `concat` must be written in the rule".to_owned())
        }
        "strings.replace_n" => {
            Some("`strings.replace_n` is not available: use `replace`".to_owned())
        }
        _ => None,
    }
}

/// Functions of a bundle and the functions that they call.
struct Functions {
    defined: BTreeMap<Vec<String>, (Span, BTreeSet<Vec<String>>)>,
}

impl Functions {
    fn of(modules: &[Ref<Module>]) -> Self {
        let mut functions = Self { defined: BTreeMap::new() };
        for module in modules {
            for (name, rule) in defined(module) {
                let place = rule.span().clone();
                functions.defined.entry(name).or_insert((place, BTreeSet::new()));
            }
        }
        for module in modules {
            for (name, rule) in defined(module) {
                let calls = functions.calls(module, rule);
                if let Some((_, known)) = functions.defined.get_mut(&name) {
                    known.extend(calls);
                }
            }
        }
        functions
    }

    fn calls(&self, module: &Module, rule: &Rule) -> BTreeSet<Vec<String>> {
        let mut calls = BTreeSet::new();
        syntax::rule(rule, &mut |found, _| {
            if let Found::Call { function: Some(path), .. } = found {
                calls.extend(self.resolve(&path, module));
            }
        });
        calls
    }

    /// Functions of the bundle that a name can refer to in a module.
    fn resolve(&self, path: &Path, module: &Module) -> impl Iterator<Item = Vec<String>> {
        let own = [package(module), path.names.clone()].concat();
        let imported = imported(path, &module.imports);
        let meant: Vec<_> = [path.names.clone(), own].into_iter().chain(imported).collect();
        meant.into_iter().filter(|name| self.defined.contains_key(name))
    }

    /// Functions that call themselves, directly or through others.
    fn recursive(&self) -> Vec<Problem> {
        let again = |name: &Vec<String>| self.reachable(name).contains(name);
        let recursive = self.defined.iter().filter(|(name, _)| again(name));
        let problem = |name: &[String], span| {
            at(span, format!("function `{}` calls itself: Rego has no recursion", name.join(".")))
        };
        recursive.map(|(name, (span, _))| problem(name, span)).collect()
    }

    fn reachable(&self, from: &[String]) -> BTreeSet<Vec<String>> {
        let mut reached = BTreeSet::new();
        let mut open = vec![from.to_vec()];
        while let Some(name) = open.pop() {
            let calls = self.defined.get(&name).map(|(_, calls)| calls).into_iter().flatten();
            open.extend(calls.filter(|call| reached.insert((*call).clone())).cloned());
        }
        reached
    }
}

/// Functions that a module defines, by full name.
fn defined(module: &Module) -> impl Iterator<Item = (Vec<String>, &Rule)> {
    module.policy.iter().filter_map(|rule| {
        let refr = match rule.as_ref() {
            Rule::Spec { head: RuleHead::Func { refr, .. }, .. } => refr,
            Rule::Default { refr, args, .. } if !args.is_empty() => refr,
            Rule::Spec { .. } | Rule::Default { .. } => return None,
        };
        let name = syntax::path(refr)?;
        Some(([package(module), name.names].concat(), rule.as_ref()))
    })
}

/// `data` and the names of the package.
pub(super) fn package(module: &Module) -> Vec<String> {
    let names = syntax::path(&module.package.refr).map(|path| path.names).unwrap_or_default();
    [vec!["data".to_owned()], names].concat()
}

/// Paths that a name refers to by an import.
pub(super) fn imported(path: &Path, imports: &[Import]) -> impl Iterator<Item = Vec<String>> {
    imports.iter().filter_map(|import| {
        let target = syntax::path(&import.refr)?.names;
        let alias = import.r#as.as_ref().map(|span| span.text().to_owned());
        let alias = alias.or_else(|| target.last().cloned())?;
        (path.names[0] == alias).then(|| [target, path.names[1..].to_vec()].concat())
    })
}
