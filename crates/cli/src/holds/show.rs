//! Text of a hold: exactly what would run.

use std::fmt::Write as _;

use super::Hold;
use crate::{client::pretty, table::plain};

/// Everything that an approver should see.
pub(super) fn hold(hold: &Hold) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<10} {}", plain(value));
    };
    line("call", &hold.id);
    line("tool", &format!("{} {}", hold.tool, hold.version));
    line("", &hold.digest);
    line("effect", if hold.pure { "none outside its sandbox" } else { "outside its sandbox" });
    line("made by", &maker(hold));
    for reason in &hold.reasons {
        line("held by", &format!("{}: {}", reason.rule, reason.message));
    }
    line("policy", hold.policy.as_deref().unwrap_or("-"));
    line("since", &hold.since);
    line("expires", &hold.expires_at);
    line("approved", &format!("{} of {}", hold.votes.len(), hold.approvals_needed));
    for vote in &hold.votes {
        let who = vote.person.as_deref().unwrap_or(&vote.label);
        line("", &format!("by {who}, key {}, at {}", vote.by, vote.at));
    }
    for changed in &hold.changed {
        line("changed", changed);
    }
    arguments(&mut text, "would run with", hold.args.get());
    if let Some(asked) = &hold.asked_args {
        arguments(&mut text, "was asked for with", asked.get());
    }
    text
}

fn maker(hold: &Hold) -> String {
    let mut text = match hold.key_label.as_str() {
        "" => format!("key {}", hold.key),
        label => format!("{label}, key {}", hold.key),
    };
    for (what, value) in [("persona", &hold.persona_id), ("session", &hold.session_id)] {
        if let Some(value) = value {
            let _ = write!(text, ", {what} {value}");
        }
    }
    text
}

/// Indented JSON; its content is untrusted, and JSON has no control characters of its own.
fn arguments(text: &mut String, title: &str, json: &str) {
    let _ = writeln!(text, "{title}");
    for line in pretty::pretty(json).lines() {
        let _ = writeln!(text, "  {}", plain(line));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use expect_test::expect;

    use super::Hold;

    pub(in crate::holds) fn sample() -> Hold {
        let json = r#"{"id":"019a","tool":"mail.send","version":"1.0.0","digest":"sha256:ab",
            "args":{"to":"a@b.example\u001b[2J","n":12345678901234567890},"asked_args":{"to":"x"},
            "pure":false,"key":"019b","key_label":"agent","persona_id":"ann","session_id":"s-1",
            "metadata":{},"reasons":[{"rule":"outside","message":"the address is\noutside"}],
            "policy":"sha256:cd","since":"2026-01-01T00:00:00Z","expires_at":"2026-01-02T00:00:00Z",
            "approvals_needed":2,"votes":[{"by":"019c","label":"boss","at":"2026-01-01T01:00:00Z"}],
            "changed":["the policy is another"],"resolve":"/v1","shown":"sha256:ef","trace_id":"0"}"#;
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn nothing_of_what_would_happen_is_left_out() {
        expect![[r#"
            call       019a
            tool       mail.send 1.0.0
                       sha256:ab
            effect     outside its sandbox
            made by    agent, key 019b, persona ann, session s-1
            held by    outside: the address is outside
            policy     sha256:cd
            since      2026-01-01T00:00:00Z
            expires    2026-01-02T00:00:00Z
            approved   1 of 2
                       by boss, key 019c, at 2026-01-01T01:00:00Z
            changed    the policy is another
            would run with
              {
                "to": "a@b.example\u001b[2J",
                "n": 12345678901234567890
              }
            was asked for with
              {
                "to": "x"
              }
        "#]]
        .assert_eq(&super::hold(&sample()));
    }
}
