//! Slots: values that a text names, found by rules.
//!
//! Positions are Unicode code points, as in the Code Executor Service. Names of people and places need
//! a model and are not guessed.

use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

/// Slots of one text.
const MAX_SLOTS: usize = 100;

/// A value in a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Kind of the value: `email`, `url`, `date`, `time`, `money`, `phone`, `argument`, `number`.
    pub kind: String,
    /// The value as written.
    pub value: String,
    /// Name that the text gives to it, as in `path=/tmp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Position of its first character.
    pub start: usize,
    /// Position after its last character.
    pub end: usize,
}

/// Rules in order: a value that an earlier rule found is not searched again.
static RULES: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    const MONTHS: &str = "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|\
                          aug(?:ust)?|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?";
    const DAYS: &str = "(?:mon|tues|wednes|thurs|fri|satur|sun)day";
    let dates = format!(
        r"(?i)\b(?:\d{{4}}-\d{{2}}-\d{{2}}|\d{{1,2}}[/.]\d{{1,2}}[/.]\d{{2,4}}|(?:{MONTHS})\.? \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?|\d{{1,2}}(?:st|nd|rd|th)? (?:of )?(?:{MONTHS})(?:,? \d{{4}})?|(?:(?:next|last|this) )?{DAYS}|today|tomorrow|tonight|yesterday|(?:next|last|this) (?:week|month|year)|in \d+ (?:day|week|month|year)s?)\b"
    );
    [
        ("email", r"(?i)\b[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,}\b"),
        ("url", r#"(?i)\bhttps?://[^\s<>"'`]+[^\s<>"'`.,;:!?)]"#),
        ("argument", r#"\b([A-Za-z_][A-Za-z0-9_]{0,63})=("[^"\n]{0,1000}"|[^\s,;"]{1,1000})"#),
        ("date", &dates),
        ("time", r"(?i)\b(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?(?: ?[ap]m)?\b|\b(?:1[0-2]|[1-9]) ?[ap]m\b|\b(?:noon|midnight)\b"),
        ("money", r"(?i)[$€£¥] ?\d[\d,]*(?:\.\d+)?(?: ?(?:k|m|bn|million|billion))?\b|\b\d[\d,]*(?:\.\d+)? ?(?:dollars?|euros?|pounds?|usd|eur|gbp)\b"),
        ("phone", r"\+?\d{1,3}[-. ]?\(?\d{2,4}\)?[-. ]\d{3,4}[-. ]?\d{3,4}\b"),
        ("number", r"(?:^|[\s(])([-+]?\d[\d,]*(?:\.\d+)?%?)(?:$|[\s),.;:!?])"),
    ]
    .into_iter()
    .map(|(kind, pattern)| (kind, Regex::new(pattern).expect("our own patterns compile")))
    .collect()
});

/// Values of a text, in the order of the text.
pub fn slots(text: &str) -> Vec<Slot> {
    let mut taken: Vec<(usize, usize, &str, Option<String>, &str)> = Vec::new();
    for (kind, rule) in RULES.iter() {
        for found in rule.captures_iter(text) {
            let (name, value) = match (*kind, found.get(1), found.get(2)) {
                ("argument", Some(name), Some(value)) => (Some(name.as_str().to_owned()), value),
                ("number", Some(value), _) => (None, value),
                _ => (None, found.get_match()),
            };
            let span = (value.start(), value.end());
            let is_free = taken.iter().all(|other| span.1 <= other.0 || other.1 <= span.0);
            if is_free && taken.len() < MAX_SLOTS {
                taken.push((span.0, span.1, kind, name, value.as_str()));
            }
        }
    }
    taken.sort_unstable_by_key(|found| found.0);
    let (mut bytes, mut characters) = (0, 0);
    let mut position = |at: usize| {
        characters += text[bytes..at].chars().count();
        bytes = at;
        characters
    };
    taken
        .into_iter()
        .map(|(start, end, kind, name, value)| {
            let (start, end) = (position(start), position(end));
            let value = if name.is_some() { value.trim_matches('"') } else { value };
            Slot { kind: kind.to_owned(), value: value.to_owned(), name, start, end }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, wanted: &[(&str, &str)]) {
        let found = slots(text);
        let found: Vec<_> = found.iter().map(|slot| (&*slot.kind, &*slot.value)).collect();
        assert_eq!(found, wanted, "{text}");
    }

    #[test]
    fn values_are_found() {
        check(
            "Mail é to ana@example.com by 2026-11-18, 10:30am.",
            &[("email", "ana@example.com"), ("date", "2026-11-18"), ("time", "10:30am")],
        );
        check(
            "pay $1,200.50 to +1-555-123-4567 next friday",
            &[("money", "$1,200.50"), ("phone", "+1-555-123-4567"), ("date", "next friday")],
        );
        check(
            "read path=/tmp/x mode=\"a b\" 3 times",
            &[("argument", "/tmp/x"), ("argument", "a b"), ("number", "3")],
        );
        check("see https://example.com/a?b=1.", &[("url", "https://example.com/a?b=1")]);
        check("march on, may I? a b c", &[]);
    }

    #[test]
    fn positions_count_characters() {
        let found = slots("é ana@example.com");
        assert_eq!((found[0].start, found[0].end), (2, 17));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,200}") {
            let _ = slots(&text);
        }
    }
}
