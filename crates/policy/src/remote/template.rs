//! Templates for names of users and objects, filled from the document: `tool:{tool}`.
//!
//! Invariant: values of the document cannot become syntax. A persona called `*` or `x#member` is
//! escaped, because in OpenFGA these mean *all users* and *all members of x*.

use std::{fmt, fmt::Write, str::FromStr};

use crate::Input;

/// Text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Action,
    Call,
    Key,
    Persona,
    Session,
    Tenant,
    Tool,
    Version,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(Field),
}

/// Allowed placeholders.
const FIELDS: &[(&str, Field)] = &[
    ("action", Field::Action),
    ("call", Field::Call),
    ("key", Field::Key),
    ("persona", Field::Persona),
    ("session", Field::Session),
    ("tenant", Field::Tenant),
    ("tool", Field::Tool),
    ("version", Field::Version),
];

/// Invalid template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not text with {{action}}, {{call}}, {{key}}, {{persona}}, {{session}}, {{tenant}}, {{tool}} or {{version}} in it"
)]
pub struct InvalidTemplate(String);

impl FromStr for Template {
    type Err = InvalidTemplate;

    fn from_str(text: &str) -> Result<Self, InvalidTemplate> {
        let invalid = || InvalidTemplate(text.chars().take(100).collect());
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or_else(invalid)?;
            let field = FIELDS.iter().find(|(known, _)| *known == name).ok_or_else(invalid)?;
            parts.extend([Part::Text(before.to_owned()), Part::Field(field.1)]);
            rest = after;
        }
        parts.push(Part::Text(rest.to_owned()));
        parts.retain(|part| *part != Part::Text(String::new()));
        let is_bare = |c: char| c == '}' || c.is_control() || c.is_whitespace();
        if parts.is_empty() || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(invalid());
        }
        let has_brace =
            parts.iter().any(|part| matches!(part, Part::Text(text) if text.contains(is_bare)));
        if has_brace { Err(invalid()) } else { Ok(Self { parts }) }
    }
}

impl Template {
    /// Filled text; `None` if the document lacks a field: a call need not have a persona.
    pub(super) fn fill(&self, input: &Input) -> Option<String> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Field(field) => escape(&field.of(input)?, &mut text),
            }
        }
        Some(text)
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                Part::Text(text) => f.write_str(text)?,
                Part::Field(field) => {
                    let name = FIELDS.iter().find(|(_, known)| known == field);
                    write!(f, "{{{}}}", name.map_or("", |(name, _)| name))?;
                }
            }
        }
        Ok(())
    }
}

impl Field {
    fn of(self, input: &Input) -> Option<String> {
        Some(match self {
            Field::Action => input.action.name().to_owned(),
            Field::Call => input.call_id.to_string(),
            Field::Key => input.principal.key.to_string(),
            Field::Persona => input.persona_id.as_ref()?.to_string(),
            Field::Session => input.session_id.as_ref()?.to_string(),
            Field::Tenant => input.tenant.to_string(),
            Field::Tool => input.tool.name.to_string(),
            Field::Version => input.tool.version.clone(),
        })
    }
}

fn escape(value: &str, out: &mut String) {
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => out.push(byte.into()),
            // Writing to a string cannot fail.
            other => drop(write!(out, "%{other:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::document;

    fn filled(template: &str, persona: Option<&str>) -> Option<String> {
        let mut input = document(&[], "{}");
        input.persona_id = persona.map(|persona| persona.parse().expect("a persona"));
        template.parse::<Template>().expect("a template").fill(&input)
    }

    #[test]
    fn fields_are_filled_in() {
        assert_eq!(filled("tool:{tool}@{version}", None).as_deref(), Some("tool:echo@1.0.0"));
        assert_eq!(filled("a:{action}", None).as_deref(), Some("a:tool.execute"));
        assert_eq!(filled("user:anne", None).as_deref(), Some("user:anne"));
        assert_eq!(filled("persona:{persona}", None), None);
    }

    #[test]
    fn a_name_cannot_become_syntax() {
        for (name, escaped) in [("*", "%2A"), ("x#member", "x%23member"), ("a:b@c", "a%3Ab%40c")] {
            assert_eq!(filled("p:{persona}", Some(name)), Some(format!("p:{escaped}")), "{name}");
        }
        // Control: a plain name is unchanged.
        assert_eq!(filled("p:{persona}", Some("anne-1")).as_deref(), Some("p:anne-1"));
    }

    #[test]
    fn what_is_no_template_is_refused() {
        for bad in ["", "tool:{tol}", "tool:{tool", "tool:tool}", "a b", "x:{}", "x:{{tool}}"] {
            assert!(bad.parse::<Template>().is_err(), "{bad}");
        }
    }
}
