//! Rego test generated from a past decision.

use ringfence_types::{Decision, Json};

use crate::POLICY_UNAVAILABLE;

/// Nesting depth written as Rego values; rules may nest brackets only so deep, so deeper values are
/// written as text.
const MAX_DEPTH: usize = 10;

/// Reason why no test can be generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoCase {
    /// The call has no decision.
    #[error("the policy gave no answer then, so there is nothing to expect")]
    Undecided,
    /// The recorded document is not JSON.
    #[error("the document that was kept is not JSON")]
    Malformed,
}

/// Rego test `test_<name>` that expects the recorded verdict and rules for `input`. It belongs
/// in a file named `*_test.rego`.
pub fn test_case(
    name: &str,
    about: &str,
    input: &str,
    decision: &Decision,
) -> Result<String, NoCase> {
    if decision.reasons.iter().any(|reason| reason.rule == POLICY_UNAVAILABLE) {
        return Err(NoCase::Undecided);
    }
    let input = Json::parse(input.as_bytes()).map_err(|_| NoCase::Malformed)?;
    let document = document(&input);
    let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let about: String = about.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let policy = decision.policy;
    Ok(format!(
        "package ringfence_{name}_test\n\nimport data.ringfence\n\n# {about}\n# Under the rules \
         {policy}.\ntest_{name} if {{\n\tdecision := ringfence.decision with input as {document}\n\
         {}}}\n",
        expected(decision)
    ))
}

/// Expected value. An answer that was a bare boolean has no rules to expect.
fn expected(decision: &Decision) -> String {
    let verdict = decision.verdict.name();
    let is_bare = decision.reasons.iter().any(|reason| {
        reason.rule == "decision" && reason.message.starts_with("the policy answered")
    });
    if is_bare {
        return format!("\tdecision == {}\n", verdict == "allow");
    }
    let mut rules: Vec<_> = decision.reasons.iter().map(|r| text(&r.rule)).collect();
    rules.sort();
    rules.dedup();
    let rules = match rules.is_empty() {
        true => "set()".to_owned(),
        false => format!("{{{}}}", rules.join(", ")),
    };
    format!(
        "\tdecision.decision == \"{verdict}\"\n\treasons := object.get(decision, \"reasons\", [])\n\
         \t{{reason.rule | some reason in reasons}} == {rules}\n"
    )
}

fn document(input: &Json) -> String {
    let value = input.to_value();
    let is_shallow = depth(&value) <= MAX_DEPTH;
    match serde_json::to_string_pretty(&value) {
        // Readable form; the text form below keeps numbers as they were written.
        Ok(pretty) if is_shallow => indented(&pretty),
        _ => format!("json.unmarshal({})", text(input.as_str())),
    }
}

/// Text indented with tabs, one level in.
fn indented(pretty: &str) -> String {
    let line = |line: &str| {
        let spaces = line.len() - line.trim_start().len();
        format!("{}{}", "\t".repeat(spaces / 2 + 1), line.trim_start())
    };
    let lines: Vec<_> = pretty.lines().map(line).collect();
    lines.join("\n").trim_start().to_owned()
}

fn depth(value: &serde_json::Value) -> usize {
    1 + match value {
        serde_json::Value::Array(items) => items.iter().map(depth).max().unwrap_or(0),
        serde_json::Value::Object(fields) => fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn text(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}
