//! Visitor of parsed rules.
//!
//! The syntax tree of the Rego parser is public but not stable. Every `match` here names all of its
//! variants, so a new kind of expression is a compile error and never overlooked.

use regorus::unstable::{
    Expr, Literal, LiteralStmt, Module, Query, Rule, RuleAssign, RuleBody, RuleHead, Span,
};

/// Nesting limit of expressions. Evaluation recurses, and a stack overflow ends the server.
pub(super) const DEPTH: usize = 128;

/// Static prefix of a reference: `input.tool[x].y` is `input`, `tool`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path {
    /// Names in order; the first is a variable, a package or a function.
    pub(super) names: Vec<String>,
    /// Whether the whole reference is static.
    pub(super) whole: bool,
}

/// Syntax element reported to the visitor.
pub(super) enum Found<'a> {
    /// Reference by name.
    Name(Path),
    /// Function call. Its name is reported as well.
    Call { function: Option<Path>, arguments: &'a [regorus::unstable::Ref<Expr>] },
    /// `with` modifier of a statement.
    With(Option<Path>),
    /// String, number or boolean.
    Constant(&'a regorus::Value),
    /// Statement of a query.
    Statement,
    /// Expression, by its nesting depth.
    Level(usize),
    /// Expression beyond [`DEPTH`]; its contents are not visited.
    TooDeep,
}

/// Visitor callback, with the place of the element.
pub(super) type Visit<'v> = &'v mut dyn FnMut(Found<'_>, &Span);

/// Visits imports and rules of a module.
pub(super) fn module(module: &Module, visit: Visit<'_>) {
    for import in &module.imports {
        expr(&import.refr, 0, visit);
    }
    for each in &module.policy {
        rule(each, visit);
    }
}

/// Visits a rule with its head.
pub(super) fn rule(rule: &Rule, visit: Visit<'_>) {
    match rule {
        Rule::Spec { head, bodies, .. } => {
            self::head(head, visit);
            bodies.iter().for_each(|each| body(each, visit));
        }
        Rule::Default { refr, args, value, .. } => {
            [refr, value].into_iter().chain(args).for_each(|each| expr(each, 0, visit));
        }
    }
}

/// Name of a rule as written.
pub(super) fn refr(rule: &Rule) -> &Expr {
    match rule {
        Rule::Spec { head, .. } => match head {
            RuleHead::Compr { refr, .. }
            | RuleHead::Set { refr, .. }
            | RuleHead::Func { refr, .. } => refr,
        },
        Rule::Default { refr, .. } => refr,
    }
}

fn head(head: &RuleHead, visit: Visit<'_>) {
    match head {
        RuleHead::Compr { refr, assign, .. } => {
            expr(refr, 0, visit);
            assigned(assign.as_ref(), visit);
        }
        RuleHead::Set { refr, key, .. } => {
            [Some(refr), key.as_ref()].into_iter().flatten().for_each(|e| expr(e, 0, visit));
        }
        RuleHead::Func { refr, args, assign, .. } => {
            std::iter::once(refr).chain(args).for_each(|each| expr(each, 0, visit));
            assigned(assign.as_ref(), visit);
        }
    }
}

fn assigned(assign: Option<&RuleAssign>, visit: Visit<'_>) {
    if let Some(assign) = assign {
        expr(&assign.value, 0, visit);
    }
}

fn body(body: &RuleBody, visit: Visit<'_>) {
    assigned(body.assign.as_ref(), visit);
    query(&body.query, 0, visit);
}

fn query(query: &Query, depth: usize, visit: Visit<'_>) {
    query.stmts.iter().for_each(|each| statement(each, depth, visit));
}

fn statement(statement: &LiteralStmt, depth: usize, visit: Visit<'_>) {
    visit(Found::Statement, &statement.span);
    match &statement.literal {
        Literal::SomeVars { .. } => {}
        Literal::SomeIn { key, value, collection, .. } => {
            let parts = [key.as_ref(), Some(value), Some(collection)];
            parts.into_iter().flatten().for_each(|each| expr(each, depth, visit));
        }
        Literal::Expr { expr: inner, .. } | Literal::NotExpr { expr: inner, .. } => {
            expr(inner, depth, visit);
        }
        Literal::Every { domain, query: inner, .. } => {
            expr(domain, depth, visit);
            query(inner, depth + 1, visit);
        }
    }
    for with in &statement.with_mods {
        visit(Found::With(path(&with.refr)), &with.span);
        expr(&with.refr, depth, visit);
        expr(&with.r#as, depth, visit);
    }
}

fn expr(this: &Expr, depth: usize, visit: Visit<'_>) {
    if depth > DEPTH {
        return visit(Found::TooDeep, this.span());
    }
    visit(Found::Level(depth), this.span());
    let depth = depth + 1;
    match this {
        Expr::String { value, .. }
        | Expr::RawString { value, .. }
        | Expr::Number { value, .. }
        | Expr::Bool { value, .. } => visit(Found::Constant(value), this.span()),
        Expr::Null { .. } => {}
        Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } => {
            reference(this, depth, visit);
        }
        Expr::Array { items, .. } | Expr::Set { items, .. } => {
            items.iter().for_each(|each| expr(each, depth, visit));
        }
        Expr::Object { fields, .. } => {
            for (_, key, value) in fields {
                expr(key, depth, visit);
                expr(value, depth, visit);
            }
        }
        Expr::ArrayCompr { term, query: inner, .. } | Expr::SetCompr { term, query: inner, .. } => {
            expr(term, depth, visit);
            query(inner, depth, visit);
        }
        Expr::ObjectCompr { key, value, query: inner, .. } => {
            expr(key, depth, visit);
            expr(value, depth, visit);
            query(inner, depth, visit);
        }
        Expr::Call { fcn, params, span, .. } => {
            visit(Found::Call { function: path(fcn), arguments: params }, span);
            expr(fcn, depth, visit);
            params.iter().for_each(|each| expr(each, depth, visit));
        }
        Expr::UnaryExpr { expr: inner, .. } => expr(inner, depth, visit),
        Expr::BinExpr { lhs, rhs, .. }
        | Expr::BoolExpr { lhs, rhs, .. }
        | Expr::ArithExpr { lhs, rhs, .. }
        | Expr::AssignExpr { lhs, rhs, .. } => {
            expr(lhs, depth, visit);
            expr(rhs, depth, visit);
        }
        Expr::Membership { key, value, collection, .. } => {
            let parts = [key.as_ref(), Some(value), Some(collection)];
            parts.into_iter().flatten().for_each(|each| expr(each, depth, visit));
        }
    }
}

/// Reports the path of a reference, then visits its computed parts.
fn reference(this: &Expr, depth: usize, visit: Visit<'_>) {
    if let Some(path) = path(this) {
        visit(Found::Name(path), this.span());
    }
    let mut rest = this;
    let mut length = 0;
    loop {
        length += 1;
        if length > DEPTH {
            return visit(Found::TooDeep, this.span());
        }
        match rest {
            Expr::RefDot { refr, .. } => rest = refr,
            Expr::RefBrack { refr, index, .. } => {
                expr(index, depth, visit);
                rest = refr;
            }
            Expr::Var { .. } => return,
            computed => return expr(computed, depth, visit),
        }
    }
}

/// Path of a reference that begins with a name.
pub(super) fn path(this: &Expr) -> Option<Path> {
    let mut steps = Vec::new();
    let mut rest = this;
    let root = loop {
        match rest {
            Expr::RefDot { refr, field, .. } => {
                steps.push(text(&field.1));
                rest = refr;
            }
            Expr::RefBrack { refr, index, .. } => {
                steps.push(literal(index));
                rest = refr;
            }
            Expr::Var { span, .. } => break span.text(),
            _ => return None,
        }
    };
    let known = steps.iter().rev().take_while(|step| step.is_some()).count();
    let whole = known == steps.len();
    let names = std::iter::once(root.to_owned()).chain(steps.into_iter().rev().map_while(|s| s));
    Some(Path { names: names.collect(), whole })
}

/// Text of a string literal.
pub(super) fn literal(this: &Expr) -> Option<String> {
    match this {
        Expr::String { value, .. } | Expr::RawString { value, .. } => text(value),
        _ => None,
    }
}

fn text(value: &regorus::Value) -> Option<String> {
    value.as_string().ok().map(|text| text.to_string())
}
