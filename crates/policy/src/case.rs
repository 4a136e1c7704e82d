//! A decision of the past as a test of the rules.

use ringfence_types::{Decision, Json};

use crate::POLICY_UNAVAILABLE;

/// Levels of nesting that are written as they are. Rules may nest brackets only so deep, so what
/// is deeper is written as text.
const DEPTH: usize = 10;

/// Why there is no test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoCase {
    /// Nobody decided.
    #[error("the policy gave no answer then, so there is nothing to expect")]
    Undecided,
    /// The document is not JSON.
    #[error("the document that was kept is not JSON")]
    Malformed,
}

/// The Rego test `test_<name>` that expects of `input` what was decided: verdict and rules. Put it
/// into a file named `*_test.rego`.
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

/// An answer that was a bare boolean has no rules to expect.
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
    let is_shallow = depth(&value) <= DEPTH;
    match serde_json::to_string_pretty(&value) {
        // Numbers stay as they were written where they are text anyway.
        Ok(pretty) if is_shallow => indented(&pretty),
        _ => format!("json.unmarshal({})", text(input.as_str())),
    }
}

/// With tabs, one level in.
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
