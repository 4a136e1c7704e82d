//! The condition on the document that a rule begins with.
//!
//! A rule whose condition does not hold says nothing, so it may be left out, but only if nothing
//! else could have come of it: what stands ahead of the condition must not fail, bind or replace
//! anything. The evaluator goes through statements that bind nothing in the order in which they are
//! written, ahead of all others, so only such statements may precede. Whatever is not surely so is
//! no condition.

use regorus::unstable::{
    BoolOp, Expr, Literal, LiteralStmt, Module, Ref, Rule, RuleBody, RuleHead,
};

use crate::rego::syntax::{self, Found};

/// What must hold of one place in the document for a rule to say anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Guard {
    /// Names in order, without `input`.
    pub(super) path: Vec<String>,
    pub(super) test: Test,
}

/// What is looked for there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Test {
    /// One of these texts.
    Is(Vec<String>),
    /// A list or an object with this text among its values.
    Holds(String),
    /// A text that begins so. Anything else that is there makes the evaluation fail.
    Begins(String),
    /// A text that ends so. Anything else that is there makes the evaluation fail.
    Ends(String),
}

/// The condition of a rule.
pub(super) fn of(rule: &Rule) -> Option<Guard> {
    let Rule::Spec { head, bodies, .. } = rule else { return None };
    let [body] = bodies.as_slice() else { return None };
    if !is_plain(head) || body.is_else || body.assign.is_some() || binds_input(rule, body) {
        return None;
    }
    let mut found: Option<Guard> = None;
    for statement in &body.query.stmts {
        match meaning(statement) {
            // The most telling kind; none that follows is better.
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

/// Whether anything in these modules makes conditions mean something else: `input` that is replaced
/// for a while, or another function by the name of one that is known here.
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

/// `some`, `every` and comprehensions cannot rename it for a whole rule; these can.
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

/// A name by itself, with a value or as a set: the kinds that say nothing if their body does not
/// hold, but for an empty set.
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
    /// A condition that can be looked up.
    Test(Guard),
    /// It holds or it does not, and nothing else can come of it.
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

/// Comparing and looking up never fails, whatever the document holds.
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

/// A place in the document whose names are all written down.
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
