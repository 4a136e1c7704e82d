//! Which parts of the document the rules can see.
//!
//! Two documents that agree in all of those parts have the same answer, so it may be remembered.
//! Found from the parsed rules, and always too much rather than too little: `input.tool[x]` reads
//! all of `tool`, and `input` in any other place reads everything.

use ringfence_types::Digest;
use serde::Serialize;

use super::syntax::{self, Found};
use crate::Input;

/// A part of the document, with how to write it.
struct Part {
    path: &'static [&'static str],
    write: fn(&Input, &mut Vec<u8>),
}

macro_rules! parts {
    ($($($name:ident).+),* $(,)?) => {
        &[$(Part { path: &[$(stringify!($name)),+], write: |input, out| json(&input.$($name).+, out) }),*]
    };
}

/// All of it. A test holds this against the document as it is written.
const PARTS: &[Part] = parts![
    action,
    approval,
    args,
    call_id,
    grants,
    metadata,
    parent_call_id,
    persona_id,
    plan_step,
    principal.key,
    principal.scopes,
    session_id,
    taint,
    tenant,
    time,
    tool.digest,
    tool.name,
    tool.origin,
    tool.pure,
    tool.requires_approval,
    tool.safety_flags,
    tool.tags,
    tool.version,
];

/// Different for every call: an answer that depends on one of these is not worth keeping.
const PASSING: &[&str] = &["call_id", "time"];

/// What a set of rules reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reads {
    /// Positions in [`PARTS`], ascending.
    parts: Vec<usize>,
}

impl Reads {
    /// Of these modules.
    pub(super) fn of(modules: &[regorus::unstable::Ref<regorus::unstable::Module>]) -> Self {
        let mut read = vec![false; PARTS.len()];
        for module in modules {
            syntax::module(module, &mut |found, _| match found {
                Found::Name(path) if path.names[0] == "input" => mark(&path.names[1..], &mut read),
                // Whatever is in there was not looked at.
                Found::TooDeep => mark(&[], &mut read),
                Found::Name(_) | Found::Call { .. } | Found::With(_) | Found::Constant(_) => {}
            });
        }
        let parts = (0..PARTS.len()).filter(|index| read[*index]).collect();
        Self { parts }
    }

    /// The same for two documents only if the rules cannot tell them apart; none if an answer is
    /// not worth keeping.
    pub(super) fn key(&self, input: &Input) -> Option<Digest> {
        let mut parts = self.parts.iter().map(|index| &PARTS[*index]);
        if parts.clone().any(|part| PASSING.contains(&part.path[0])) {
            return None;
        }
        let mut text = Vec::with_capacity(256);
        parts.by_ref().for_each(|part| {
            (part.write)(input, &mut text);
            // Compact JSON has no line breaks, so nothing runs into its neighbour.
            text.push(b'\n');
        });
        Some(Digest::of(&text))
    }

    /// Their names, for people.
    pub(super) fn names(&self) -> Vec<String> {
        self.parts.iter().map(|index| PARTS[*index].path.join(".")).collect()
    }
}

/// A path reads what lies beneath it and what it lies in.
fn mark(path: &[String], read: &mut [bool]) {
    for (part, read) in PARTS.iter().zip(read) {
        *read |= part.path.iter().zip(path).all(|(one, other)| one == other);
    }
}

fn json<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("plain data with text keys can be written");
}
