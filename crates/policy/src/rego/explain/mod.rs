//! Why a document was judged as it was, and the smallest change of it that would be allowed.
//!
//! Which rule a reason comes from is told by the text of the rules: the one that writes the
//! reason's name. What would change the answer is found by trying: one change of one part that the
//! rules read, then pairs of them, each judged by the real rules. A change that is told was judged
//! and allowed; that none was found means only that none of those tried was.

mod change;
mod source;

use std::time::{Duration, Instant};

use serde_json::Value;

pub use self::change::Change;
use self::source::Source;
use super::{Bundle, InvalidBundle, again::Judge, apart, compile};
use crate::{Answer, Trouble};
use ringfence_types::{Reason, Verdict};

/// How long an explanation may take, loading included.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long changes are tried.
const TRYING: Duration = Duration::from_secs(4);
/// Most changes that are tried one by one.
const SINGLES: usize = 1_500;
/// Of these, those that are tried in pairs.
const PAIRED: usize = 60;

/// Why a document is judged as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// What the rules say; or why they say nothing.
    pub answer: Result<Answer, Trouble>,
    /// Each reason, where it comes from and what it looked at.
    pub causes: Vec<Cause>,
    /// What would be allowed.
    pub search: Search,
}

/// Where a reason comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    /// The reason.
    pub reason: Reason,
    /// The rules that write it: file and line. Empty if its name is computed.
    pub places: Vec<(String, u32)>,
    /// What those rules look at, directly or through others: each path and what is there.
    pub reads: Vec<(String, Option<Value>)>,
}

/// What came of looking for a change that would be allowed.
#[derive(Debug, Clone, PartialEq)]
pub enum Search {
    /// It is allowed as it is.
    Allowed,
    /// These changes together would do: the fewest that were found.
    Found {
        /// One or two.
        changes: Vec<Change>,
        /// How many were judged.
        tried: usize,
    },
    /// None of those that were judged would do.
    Nothing {
        /// How many were judged.
        tried: usize,
    },
}

impl Explanation {
    /// Judges `document`, as text, by the rules of `bundle`, and explains the answer.
    pub fn of(bundle: &Bundle, document: &str) -> Result<Self, InvalidBundle> {
        let document = document.to_owned();
        apart(bundle, PATIENCE, move |bundle| explain(bundle, &document))
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

/// A path as a JSON Pointer.
fn pointer(path: &[String]) -> String {
    path.iter().map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1"))).collect()
}

fn search(judge: &mut Judge, source: &Source, causes: &[Cause], document: &Value) -> Search {
    let until = Instant::now() + TRYING;
    let blamed: Vec<_> =
        causes.iter().flat_map(|cause| source.behind(&cause.reason.rule).1).collect();
    let mut candidates = change::candidates(source, &blamed, document);
    candidates.truncate(SINGLES);
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
    let some = &candidates[..candidates.len().min(PAIRED)];
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
