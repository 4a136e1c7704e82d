//! Explanation of an answer, and the smallest change of the document that would be allowed.
//!
//! The rule behind a reason is found in the source: the rule that contains the reason's name. Changes
//! are found by trying: one change of one part that the rules read, then pairs of them, each
//! evaluated by the real rules. A reported change was evaluated and allowed; no result means only that
//! none of the tried changes was.

mod change;
mod source;

use std::time::{Duration, Instant};

use serde_json::Value;

pub use self::change::Change;
use self::source::Source;
use super::{Bundle, InvalidBundle, apart, compile, replay::Judge};
use crate::{Answer, Trouble};
use ringfence_types::{Reason, Verdict};

/// Time limit of an explanation, loading included.
const EXPLAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit of the search for changes.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(4);
/// Single changes tried.
const MAX_SINGLE_CHANGES: usize = 1_500;
/// Changes that are also tried in pairs.
const MAX_PAIRED_CHANGES: usize = 60;

/// Explanation of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// Answer of the rules, or the failure.
    pub answer: Result<Answer, Trouble>,
    /// Causes of the reasons.
    pub causes: Vec<Cause>,
    /// Result of the search for an allowed change.
    pub search: Search,
}

/// Cause of one reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    /// The reason.
    pub reason: Reason,
    /// Rules that contain the reason: file and line. Empty if its name is computed.
    pub places: Vec<(String, u32)>,
    /// Paths that those rules read, directly or through others, with their values.
    pub reads: Vec<(String, Option<Value>)>,
}

/// Result of the search for an allowed change.
#[derive(Debug, Clone, PartialEq)]
pub enum Search {
    /// The document is allowed as it is.
    Allowed,
    /// These changes together would be allowed: the fewest found.
    Found {
        /// One or two changes.
        changes: Vec<Change>,
        /// Number of changes evaluated.
        tried: usize,
    },
    /// None of the evaluated changes would be allowed.
    Nothing {
        /// Number of changes evaluated.
        tried: usize,
    },
}

impl Explanation {
    /// Evaluates `document`, given as text, by the rules of `bundle`, and explains the answer.
    pub fn of(bundle: &Bundle, document: &str) -> Result<Self, InvalidBundle> {
        let document = document.to_owned();
        apart(bundle, EXPLAIN_TIMEOUT, move |bundle| explain(bundle, &document))
    }
}

fn explain(bundle: &Bundle, document: &str) -> Result<Explanation, InvalidBundle> {
    let (mut engine, reads) = compile(bundle)?;
    let source = Source::of(engine.get_modules(), bundle.data());
    let mut judge = Judge::new(&engine, reads, bundle.digest());
    let answer = judge.judge(document).map_err(|unavailable| unavailable.trouble);
    let value: Value = serde_json::from_str(document).unwrap_or(Value::Null);
    let reasons = answer.as_ref().map(|answer| answer.reasons.clone()).unwrap_or_default();
    let causes: Vec<_> = reasons.into_iter().map(|reason| cause(&source, reason, &value)).collect();
    let is_allowed = answer.as_ref().is_ok_and(|answer| answer.verdict == Verdict::Allow);
    let search = match is_allowed {
        true => Search::Allowed,
        false => search(&mut judge, &source, &causes, &value),
    };
    Ok(Explanation { answer, causes, search })
}

fn cause(source: &Source, reason: Reason, document: &Value) -> Cause {
    let (places, paths) = source.behind(&reason.rule);
    let read = |path: Vec<String>| (pointer(&path), change::at(document, &path).cloned());
    Cause { reason, places, reads: paths.into_iter().map(read).collect() }
}

/// JSON Pointer of a path.
fn pointer(path: &[String]) -> String {
    path.iter().map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1"))).collect()
}

fn search(judge: &mut Judge, source: &Source, causes: &[Cause], document: &Value) -> Search {
    let until = Instant::now() + SEARCH_TIMEOUT;
    let blamed: Vec<_> =
        causes.iter().flat_map(|cause| source.behind(&cause.reason.rule).1).collect();
    let mut candidates = change::candidates(source, &blamed, document);
    candidates.truncate(MAX_SINGLE_CHANGES);
    let mut tried = 0;
    let mut allows = |changes: &[&Change]| {
        tried += 1;
        let changed = change::apply(document, changes);
        judge.judge(&changed.to_string()).is_ok_and(|answer| answer.verdict == Verdict::Allow)
    };
    let mut found = None;
    for one in &candidates {
        if Instant::now() >= until {
            break;
        }
        if allows(&[one]) {
            found = Some(vec![one.clone()]);
            break;
        }
    }
    let some = &candidates[..candidates.len().min(MAX_PAIRED_CHANGES)];
    'pairs: for (index, one) in some.iter().enumerate() {
        for other in &some[index + 1..] {
            if found.is_some() || Instant::now() >= until {
                break 'pairs;
            }
            if allows(&[one, other]) {
                found = Some(vec![one.clone(), other.clone()]);
            }
        }
    }
    match found {
        Some(changes) => Search::Found { changes: change::joined(document, changes), tried },
        None => Search::Nothing { tried },
    }
}
