//! Merge of several answers: the strictest verdict, all reasons, all conditions.

use ringfence_types::{Digest, Verdict};

use crate::{Answer, answer::MAX_REASONS};

/// Merged answer; `None` if there are no answers.
pub(super) fn answers(mut answers: Vec<(&str, Answer)>) -> Option<Answer> {
    if answers.len() < 2 {
        return answers.pop().map(|(_, answer)| answer);
    }
    let policy = revision(answers.iter().map(|(name, answer)| (*name, answer.policy)));
    // The reasons of the strictest verdict come first.
    answers.sort_by_key(|(_, answer)| std::cmp::Reverse(strictness(answer.verdict)));
    let merged = answers.into_iter().map(|(_, answer)| answer).reduce(|mut one, other| {
        one.reasons.extend(other.reasons);
        one.obligations = one.obligations.and(other.obligations);
        one.approvals = one.approvals.max(other.approvals);
        one
    });
    merged.map(|mut answer| {
        answer.reasons.truncate(MAX_REASONS);
        answer.policy = policy;
        answer
    })
}

pub(super) fn is_deny(answer: &Answer) -> bool {
    answer.verdict == Verdict::Deny
}

/// Combined revision of several sets of rules, by engine name.
pub(super) fn revision<'a>(parts: impl Iterator<Item = (&'a str, Digest)>) -> Digest {
    let parts: Vec<_> = parts.map(|(name, digest)| (name, digest.to_string())).collect();
    Digest::of(&serde_json::to_vec(&parts).expect("text can be written"))
}

fn strictness(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Allow => 0,
        Verdict::Hold => 1,
        Verdict::Deny => 2,
    }
}
