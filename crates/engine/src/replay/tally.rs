//! Counts of the flips of a replay.

use std::{collections::BTreeMap, time::Duration};

use ringfence_policy::{Answer, POLICY_UNAVAILABLE, Unavailable};
use ringfence_store::KeptDecision;
use ringfence_types::{Digest, Obligations, Reason, Timestamp, Verdict};

use super::{Flipped, Replay, is_redacted};

/// Names with counts of their own; tool and rule names are chosen by their authors.
const MAX_NAMES: usize = 1_000;
/// Name for the sum of all others.
const OTHER_NAMES: &str = "(others)";

/// Flips by recorded verdict and new verdict.
pub type Counted = BTreeMap<(&'static str, &'static str), u64>;

/// Flips, counted by tool, tenant and rule.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Flips {
    /// Number of all flips.
    pub total: u64,
    /// By verdicts.
    pub kinds: Counted,
    /// By tool.
    pub tools: BTreeMap<String, Counted>,
    /// By tenant.
    pub tenants: BTreeMap<String, Counted>,
    /// By the rule that would decide.
    pub rules: BTreeMap<String, Counted>,
}

pub(super) struct Tally {
    pub(super) decisions: u64,
    redacted: u64,
    unanswered: u64,
    other_obligations: u64,
    flips: Flips,
    listed: Vec<Flipped>,
    max_listed: usize,
}

impl Tally {
    pub(super) fn new(max_listed: usize) -> Self {
        Self {
            decisions: 0,
            redacted: 0,
            unanswered: 0,
            other_obligations: 0,
            flips: Flips::default(),
            listed: Vec::new(),
            max_listed,
        }
    }

    pub(super) fn add(&mut self, kept: &KeptDecision, answer: Result<Answer, Unavailable>) {
        self.decisions += 1;
        self.redacted += u64::from(is_redacted(kept));
        self.unanswered += u64::from(answer.is_err());
        let was = &kept.kept.decision;
        let answer = answer.unwrap_or_else(|trouble| held(&trouble, was.policy));
        if answer.verdict == was.verdict {
            let is_other = was.verdict == Verdict::Allow && answer.obligations != was.obligations;
            self.other_obligations += u64::from(is_other);
            return;
        }
        self.flips.add(kept, &answer);
        if self.listed.len() < self.max_listed {
            self.listed.push(flipped(kept, answer));
        }
    }

    pub(super) fn told(
        self,
        policy: Digest,
        next: Option<(Timestamp, u64)>,
        took: Duration,
    ) -> Replay {
        Replay {
            policy,
            decisions: self.decisions,
            redacted: self.redacted,
            unanswered: self.unanswered,
            other_obligations: self.other_obligations,
            flips: self.flips,
            listed: self.listed,
            next,
            took,
        }
    }
}

/// The answer for a call without an answer of the proposed rules: hold.
fn held(trouble: &Unavailable, policy: Digest) -> Answer {
    let rule = POLICY_UNAVAILABLE.to_owned();
    let reasons = vec![Reason { rule, message: trouble.to_string() }];
    let obligations = Obligations::default();
    Answer { verdict: Verdict::Hold, reasons, obligations, approvals: None, policy }
}

fn flipped(kept: &KeptDecision, answer: Answer) -> Flipped {
    let was = &kept.kept.decision;
    Flipped {
        decision: kept.id,
        call: kept.call,
        tenant: kept.tenant.clone(),
        tool: kept.tool.clone(),
        at: kept.kept.at,
        was: was.verdict,
        was_because: was.reasons.clone(),
        policy: was.policy,
        would_be: answer.verdict,
        would_be_because: answer.reasons,
    }
}

impl Flips {
    fn add(&mut self, kept: &KeptDecision, answer: &Answer) {
        let kind = (kept.kept.decision.verdict.name(), answer.verdict.name());
        let rule = answer.reasons.first().map_or("(none)", |reason| reason.rule.as_str());
        self.total += 1;
        *self.kinds.entry(kind).or_default() += 1;
        for (names, name) in [
            (&mut self.tools, kept.tool.as_str()),
            (&mut self.tenants, kept.tenant.as_str()),
            (&mut self.rules, rule),
        ] {
            let is_full = names.len() >= MAX_NAMES && !names.contains_key(name);
            let name = if is_full { OTHER_NAMES } else { name };
            *names.entry(name.to_owned()).or_default().entry(kind).or_default() += 1;
        }
    }
}
