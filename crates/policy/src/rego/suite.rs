//! Test runner for a bundle: rules named `test_…` in files `*_test.rego`, each `true` or a failure.
//!
//! A test has the bounds of a decision: the same time limit, the same functions. It may replace
//! `data` as well as `input`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use regorus::unstable::{Literal, LiteralStmt, Module, Query, Ref, Rule, RuleHead, Span};

use super::{
    Bundle, InvalidBundle, apart, assemble, check, compile,
    problem::{Problem, shown},
    syntax,
};

/// Time limit for all tests of a bundle.
const SUITE_TIMEOUT: Duration = Duration::from_secs(120);
/// Name prefix of a test.
const TEST_PREFIX: &str = "test_";
/// Name prefix of a skipped test.
const SKIPPED_PREFIX: &str = "todo_test_";

/// Results of the tests of a bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// Results by file and line.
    pub tests: Vec<Tested>,
    /// Coverage of each rule file.
    pub coverage: Vec<Coverage>,
}

/// Result of one test.
#[derive(Debug, Clone, PartialEq)]
pub struct Tested {
    /// Full name, such as `data.ringfence_test.test_no_flags`.
    pub name: String,
    /// File of the test.
    pub file: String,
    /// First line of the test.
    pub line: u32,
    /// Outcome of the test.
    pub outcome: TestOutcome,
    /// Duration of the test.
    pub took: Duration,
}

/// Outcome of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestOutcome {
    /// The test is true.
    Passed,
    /// The test is not true; with the last expression reached, if known.
    Failed(Option<Expression>),
    /// Evaluation failed.
    Errored(String),
    /// Skipped by its name.
    Skipped,
}

/// Expression in a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    /// File of the expression.
    pub file: String,
    /// Line of the expression.
    pub line: u32,
    /// Source text on one line.
    pub text: String,
}

/// Coverage of a file, in lines that can be evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// Name of the file.
    pub file: String,
    /// Number of evaluated lines.
    pub covered: usize,
    /// Lines that were not evaluated.
    pub missed: Vec<u32>,
}

impl Suite {
    /// Runs the tests of a bundle, or returns everything that is wrong with it.
    pub fn run(bundle: &Bundle) -> Result<Self, InvalidBundle> {
        apart(bundle, SUITE_TIMEOUT, |bundle| {
            // The rules must compile without the test files.
            compile(bundle)?;
            run(bundle)
        })
    }

    /// Whether no test failed.
    pub fn is_passed(&self) -> bool {
        let is_good =
            |test: &Tested| matches!(test.outcome, TestOutcome::Passed | TestOutcome::Skipped);
        self.tests.iter().all(is_good)
    }
}

fn run(bundle: &Bundle) -> Result<Suite, InvalidBundle> {
    let mut pristine = assemble(bundle, bundle.rules().chain(bundle.tests()))?;
    let tests = found(pristine.get_modules());
    pristine.set_enable_coverage(true);
    let (mut tested, mut lines) = (Vec::new(), Lines::default());
    for test in tests.values() {
        // Each test has its own copy, because a failed evaluation may leave state in the engine.
        let mut engine = pristine.clone();
        let started = Instant::now();
        let outcome = test.outcome(&mut engine);
        tested.push(test.tested(outcome, started.elapsed()));
        lines.add(&engine);
    }
    tested.sort_by(|one, other| (&one.file, one.line).cmp(&(&other.file, other.line)));
    Ok(Suite { tests: tested, coverage: lines.of_rules(bundle) })
}

/// Test as written: several rules of one name are one test.
struct Test {
    name: String,
    place: Span,
    is_todo: bool,
    statements: Vec<Span>,
}

fn found(modules: &[Ref<Module>]) -> BTreeMap<String, Test> {
    let mut tests: BTreeMap<String, Test> = BTreeMap::new();
    for module in modules.iter().filter(|module| check::is_test(module)) {
        for rule in &module.policy {
            let Some(own) = own_name(rule) else { continue };
            let (is_test, is_todo) =
                (own.starts_with(TEST_PREFIX), own.starts_with(SKIPPED_PREFIX));
            if !is_test && !is_todo {
                continue;
            }
            let name = [check::package(module), vec![own]].concat().join(".");
            let test = tests.entry(name.clone()).or_insert_with(|| Test {
                name,
                place: rule.span().clone(),
                is_todo,
                statements: Vec::new(),
            });
            statements(rule, &mut test.statements);
        }
    }
    tests
}

/// Name of a rule that is neither a function nor a partial rule.
fn own_name(rule: &Rule) -> Option<String> {
    let Rule::Spec { head: RuleHead::Compr { refr, .. }, .. } = rule else { return None };
    let path = syntax::path(refr)?;
    match path.names.as_slice() {
        [name] if path.whole => Some(name.clone()),
        _ => None,
    }
}

fn statements(rule: &Rule, found: &mut Vec<Span>) {
    if let Rule::Spec { bodies, .. } = rule {
        bodies.iter().for_each(|body| within(&body.query, found));
    }
}

fn within(query: &Query, found: &mut Vec<Span>) {
    for LiteralStmt { span, literal, .. } in &query.stmts {
        found.push(span.clone());
        if let Literal::Every { query, .. } = literal {
            within(query, found);
        }
    }
}

impl Test {
    fn tested(&self, outcome: TestOutcome, took: Duration) -> Tested {
        let (name, file) = (self.name.clone(), self.place.source.file().clone());
        Tested { name, file, line: self.place.line, outcome, took }
    }

    fn outcome(&self, engine: &mut regorus::Engine) -> TestOutcome {
        if self.is_todo {
            return TestOutcome::Skipped;
        }
        match engine.eval_rule(self.name.clone()) {
            Ok(regorus::Value::Bool(true)) => TestOutcome::Passed,
            Ok(_) => TestOutcome::Failed(self.reached(engine)),
            Err(error) => {
                let problem = Problem::from_rego(self.place.source.file(), &error);
                TestOutcome::Errored(problem.to_string())
            }
        }
    }

    /// Last expression of the test that was reached, by the lines that were covered.
    fn reached(&self, engine: &regorus::Engine) -> Option<Expression> {
        let report = engine.get_coverage_report().ok()?;
        let file = report.files.iter().find(|file| file.path == *self.place.source.file())?;
        let reached = self.statements.iter().filter(|span| file.covered.contains(&span.line));
        reached.max_by_key(|span| (span.line, span.col)).map(expression)
    }
}

/// Expression by its first line: spans end within the quotes of a string.
fn expression(span: &Span) -> Expression {
    let index = usize::try_from(span.line).unwrap_or(usize::MAX).saturating_sub(1);
    let text = span.source.contents().lines().nth(index).unwrap_or_default().trim();
    Expression { file: span.source.file().clone(), line: span.line, text: shown(text) }
}

/// Lines by file: evaluated lines, and all that can be evaluated.
#[derive(Default)]
struct Lines(BTreeMap<String, (BTreeSet<u32>, BTreeSet<u32>)>);

impl Lines {
    fn add(&mut self, engine: &regorus::Engine) {
        let Ok(report) = engine.get_coverage_report() else { return };
        for file in report.files {
            let (covered, all) = self.0.entry(file.path).or_default();
            all.extend(file.covered.iter().chain(&file.not_covered));
            covered.extend(file.covered);
        }
    }

    fn of_rules(&self, bundle: &Bundle) -> Vec<Coverage> {
        let nothing = (BTreeSet::new(), BTreeSet::new());
        let one = |(name, _): (&str, &str)| {
            let (covered, all) = self.0.get(name).unwrap_or(&nothing);
            let missed = all.difference(covered).copied().collect();
            Coverage { file: name.to_owned(), covered: covered.len(), missed }
        };
        bundle.rules().map(one).collect()
    }
}
