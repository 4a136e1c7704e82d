//! Guard of a rule: its leading condition on the document.
//!
//! A rule whose guard is false has no value, so it may be left out, but only if evaluating it has no
//! other effect: the statements before the guard must not fail, bind or replace anything. The
//! evaluator runs statements that bind nothing in source order, before all others, so only such
//! statements may precede the guard. In case of doubt a rule has no guard.

use regorus::unstable::{
    BoolOp, Expr, Literal, LiteralStmt, Module, Ref, Rule, RuleBody, RuleHead,
};

use crate::rego::syntax::{self, Found};

/// Condition on one path of the document without which a rule has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Guard {
    /// Names in order, without `input`.
    pub(super) path: Vec<String>,
    pub(super) test: Test,
}

/// Condition on the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Test {
    /// One of these strings.
    Is(Vec<String>),
    /// List or object with this string among its values.
    Holds(String),
    /// String with this prefix. Any other kind of value makes the evaluation fail.
    Begins(String),
    /// String with this suffix. Any other kind of value makes the evaluation fail.
    Ends(String),
}

/// Guard of a rule.
pub(super) fn of(rule: &Rule) -> Option<Guard> {
    let Rule::Spec { head, bodies, .. } = rule else { return None };
    let [body] = bodies.as_slice() else { return None };
    if !is_plain(head) || body.is_else || body.assign.is_some() || binds_input(rule, body) {
        return None;
    }
    let mut found: Option<Guard> = None;
    for statement in &body.query.stmts {
        match meaning(statement) {
            // Equality is the most selective kind; no later condition is better.
            Meaning::Test(guard) if matches!(guard.test, Test::Is(_)) => return Some(guard),
            Meaning::Test(guard) => {
                let may_fail = matches!(guard.test, Test::Begins(_) | Test::Ends(_));
                found.get_or_insert(guard);
                if may_fail {
                    break;
                }
            }
            Meaning::Harmless => {}
            Meaning::Other => break,
        }
    }
    found
}

/// Whether these modules change the meaning of guards: by replacing `input`, or by redefining a
/// function that guards use.
pub(super) fn are_unsure(modules: &[Ref<Module>]) -> bool {
    let mut unsure = false;
    for module in modules {
        let aliases = module.imports.iter().filter_map(|import| import.r#as.as_ref());
        unsure |= aliases.map(|alias| alias.text()).any(is_known);
        for rule in &module.policy {
            let defined =
                syntax::path(syntax::refr(rule)).and_then(|path| path.names.into_iter().next());
            unsure |= defined.is_none_or(|name| is_known(&name));
        }
        syntax::module(module, &mut |found, _| {
            unsure |= matches!(found, Found::With(_) | Found::TooDeep);
        });
        for import in &module.imports {
            let target = syntax::path(&import.refr).map(|path| path.names).unwrap_or_default();
            unsure |= target != ["input"] && target.last().is_none_or(|name| is_known(name));
        }
    }
    unsure
}

/// Whether a rule rebinds `input` as a whole. `some`, `every` and comprehensions cannot.
fn binds_input(rule: &Rule, body: &RuleBody) -> bool {
    let declared = body.query.stmts.iter().any(|statement| match &statement.literal {
        Literal::SomeVars { vars, .. } => vars.iter().any(|name| name.text() == "input"),
        Literal::SomeIn { .. }
        | Literal::Expr { .. }
        | Literal::NotExpr { .. }
        | Literal::Every { .. } => false,
    });
    let mut is_bare = false;
    syntax::rule(rule, &mut |found, _| {
        is_bare |= matches!(found, Found::Name(path) if path.names == ["input"]);
    });
    declared || is_bare
}

fn is_known(name: &str) -> bool {
    matches!(name, "input" | "startswith" | "endswith")
}

/// Whether a rule has no value if its body is false (an empty set apart): a plain name, with a value
/// or as a set.
fn is_plain(head: &RuleHead) -> bool {
    match head {
        RuleHead::Compr { refr, .. } => matches!(refr.as_ref(), Expr::Var { .. }),
        RuleHead::Set { refr, key, .. } => {
            matches!(refr.as_ref(), Expr::Var { .. }) && key.is_some()
        }
        RuleHead::Func { .. } => false,
    }
}

enum Meaning {
    /// Condition that can be looked up.
    Test(Guard),
    /// True or false without any other effect.
    Harmless,
    /// Anything else.
    Other,
}

fn meaning(statement: &LiteralStmt) -> Meaning {
    if !statement.with_mods.is_empty() {
        return Meaning::Other;
    }
    let harmless = |is: bool| if is { Meaning::Harmless } else { Meaning::Other };
    match &statement.literal {
        Literal::Expr { expr, .. } => {
            test(expr).map_or_else(|| harmless(is_harmless(expr)), Meaning::Test)
        }
        Literal::NotExpr { expr, .. } => harmless(is_harmless(expr)),
        Literal::SomeVars { .. } | Literal::SomeIn { .. } | Literal::Every { .. } => Meaning::Other,
    }
}

fn test(expr: &Expr) -> Option<Guard> {
    match expr {
        Expr::BoolExpr { op: BoolOp::Eq, lhs, rhs, .. } => {
            let (path, text) = match (path(lhs), path(rhs)) {
                (Some(path), None) => (path, text(rhs)?),
                (None, Some(path)) => (path, text(lhs)?),
                (Some(_), Some(_)) | (None, None) => return None,
            };
            Some(Guard { path, test: Test::Is(vec![text]) })
        }
        Expr::Membership { key: None, value, collection, .. } => match path(value) {
            Some(path) => Some(Guard { path, test: Test::Is(texts(collection)?) }),
            None => Some(Guard { path: path(collection)?, test: Test::Holds(text(value)?) }),
        },
        Expr::Call { fcn, params, .. } => {
            let [value, affix] = params.as_slice() else { return None };
            let (path, affix) = (path(value)?, text(affix)?);
            let test = match function(fcn)? {
                "startswith" => Test::Begins(affix),
                "endswith" => Test::Ends(affix),
                _ => return None,
            };
            Some(Guard { path, test })
        }
        _ => None,
    }
}

/// Whether an expression only compares and looks up, which never fails.
fn is_harmless(expr: &Expr) -> bool {
    match expr {
        Expr::BoolExpr { lhs, rhs, .. } => is_simple(lhs) && is_simple(rhs),
        Expr::Membership { key: None, value, collection, .. } => {
            is_simple(value) && (is_simple(collection) || texts(collection).is_some())
        }
        _ => path(expr).is_some(),
    }
}

fn is_simple(expr: &Expr) -> bool {
    match expr {
        Expr::String { .. } | Expr::Number { .. } | Expr::Bool { .. } | Expr::Null { .. } => true,
        _ => path(expr).is_some(),
    }
}

/// Path in the document with only static names.
fn path(expr: &Expr) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = expr;
    loop {
        match rest {
            Expr::RefDot { refr, field, .. } => {
                names.push(field.0.text().to_owned());
                rest = refr;
            }
            Expr::RefBrack { refr, index, .. } => {
                names.push(text(index)?);
                rest = refr;
            }
            Expr::Var { span, .. } if span.text() == "input" && !names.is_empty() => break,
            _ => return None,
        }
    }
    names.reverse();
    Some(names)
}

fn text(expr: &Expr) -> Option<String> {
    match expr {
        Expr::String { value, .. } => value.as_string().ok().map(|text| text.to_string()),
        _ => None,
    }
}

fn texts(expr: &Expr) -> Option<Vec<String>> {
    match expr {
        Expr::Array { items, .. } | Expr::Set { items, .. } => {
            items.iter().map(|item| text(item)).collect()
        }
        _ => None,
    }
}

fn function(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Var { span, .. } => Some(span.text()),
        _ => None,
    }
}
