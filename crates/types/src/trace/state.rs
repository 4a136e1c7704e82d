//! `tracestate`: values of other tracing systems, passed on as written.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Members of a list, by the specification.
const MAX_MEMBERS: usize = 32;
/// Characters that every service must be able to pass on; longer lists lose members.
const MAX_STATE_CHARS: usize = 512;
/// Length above which a member is dropped first.
const LONG_MEMBER: usize = 128;

/// List of `key=value`, checked by the specification's grammar and only passed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TraceState(
    /// At least one member, at most [`MAX_STATE_CHARS`] characters, all printable ASCII.
    String,
);

impl TraceState {
    /// Parses all header fields together, in their order. `None` if there is nothing to pass on:
    /// the specification asks to drop an invalid list, and to keep the trace.
    pub fn parse<'a>(fields: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let members = fields.into_iter().flat_map(|field| field.split(','));
        let members = members.map(|member| member.trim_matches([' ', '\t']));
        let mut kept: Vec<&str> = Vec::new();
        for member in members.filter(|member| !member.is_empty()) {
            let (key, value) = member.split_once('=')?;
            let is_known = kept.iter().any(|other| other.split('=').next() == Some(key));
            if kept.len() == MAX_MEMBERS || is_known || !is_key(key) || !is_value(value) {
                return None;
            }
            kept.push(member);
        }
        shorten(&mut kept);
        (!kept.is_empty()).then(|| Self(kept.join(",")))
    }

    /// Value of the header field.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TraceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Drops long members first, then those at the end, which are the oldest.
fn shorten(members: &mut Vec<&str>) {
    let length = |members: &[&str]| members.iter().map(|member| member.len() + 1).sum::<usize>();
    if length(members) > MAX_STATE_CHARS {
        members.retain(|member| member.len() <= LONG_MEMBER);
    }
    while length(members) > MAX_STATE_CHARS + 1 {
        members.pop();
    }
}

/// Whether a key is valid: `system` or `tenant@system`.
fn is_key(key: &str) -> bool {
    let fits = |text: &str, most: usize| {
        (1..=most).contains(&text.len())
            && text
                .bytes()
                .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/'))
    };
    let starts = |text: &str| text.starts_with(|c: char| c.is_ascii_lowercase());
    match key.split_once('@') {
        Some((tenant, system)) => {
            let tenant_starts =
                tenant.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
            fits(tenant, 241) && tenant_starts && fits(system, 14) && starts(system)
        }
        None => fits(key, 256) && starts(key),
    }
}

/// Whether a value is valid: printable, without comma and equals sign, not ending in a space.
fn is_value(value: &str) -> bool {
    (1..=256).contains(&value.len())
        && !value.ends_with(' ')
        && value.bytes().all(|b| matches!(b, b' '..=b'~') && b != b',' && b != b'=')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(fields: &[&str], expected: Option<&str>) {
        let found = TraceState::parse(fields.iter().copied());
        assert_eq!(found.as_ref().map(TraceState::as_str), expected, "{fields:?}");
    }

    #[test]
    fn lists_are_joined_in_their_order() {
        check(
            &["rojo=00f067aa0ba902b7", "congo=t61rcWkgMzE"],
            Some("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
        );
        check(&["a=1 ,\t b=2,,", ""], Some("a=1,b=2"));
        check(&["fw529a3039@dt=FfAAAA; x"], Some("fw529a3039@dt=FfAAAA; x"));
        check(&[], None);
        check(&[" , "], None);
    }

    #[test]
    fn one_bad_member_spoils_the_list() {
        for bad in [
            "a", "A=1", "=1", "a=", "a=1=2", "1a=1", "@b=1", "a@=1", "a@1b=1", "a=\u{e9}",
            "a=1,a=2",
        ] {
            check(&["x=1", bad], None);
        }
        let long = format!("a={}", "x".repeat(257));
        check(&[&long], None);
        let many: Vec<String> = (0..33).map(|n| format!("k{n}=v")).collect();
        check(&[&many.join(",")], None);
        check(&[&many[..32].join(",")], Some(&many[..32].join(",")));
    }

    #[test]
    fn a_long_list_loses_its_long_members_first() {
        let long = format!("long={}", "x".repeat(200));
        let short: Vec<String> = (0..12).map(|n| format!("k{n:02}={}", "v".repeat(30))).collect();
        let list = format!("{long},{}", short.join(","));
        check(&[&list], Some(&short.join(",")));
        let many: Vec<String> = (0..30).map(|n| format!("k{n:02}={}", "v".repeat(30))).collect();
        let kept = TraceState::parse([many.join(",").as_str()]).unwrap();
        assert!(
            kept.as_str().len() <= MAX_STATE_CHARS && kept.as_str().starts_with(&many[0]),
            "{kept}"
        );
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_is_kept_is_a_list(text in "[a-z0-9@=, /*~\t-]{0,700}") {
            if let Some(state) = TraceState::parse([text.as_str()]) {
                prop_assert!(state.as_str().len() <= MAX_STATE_CHARS);
                prop_assert_eq!(TraceState::parse([state.as_str()]), Some(state));
            }
        }
    }
}
