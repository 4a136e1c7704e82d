//! `cargo xtask tidy`: repository rules that the compiler cannot check.
//!
//! Each rule is a function from the whole tree to problems, with a test that shows it failing on
//! a bad sample. The same check runs on the real tree inside `cargo test`. A line that must break a
//! text rule says why: `tidy-ok: <reason>` on that line or on the one before it.

mod code;
mod documents;
mod lexer;
mod packages;
mod text;
mod tiers;
mod tree;
mod wording;

use std::fmt;

pub use tree::{Crate, File, Package, Tree};

/// Violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Path, with a line where there is one.
    pub place: String,
    /// Description in one sentence.
    pub message: String,
    /// Severity of the violation.
    pub severity: Severity,
}

/// Severity of a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Fails the check.
    Error,
    /// Printed only.
    Warning,
}

impl Problem {
    /// Whether it fails the check.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    fn error(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into(), severity: Severity::Error }
    }

    fn at(file: &File, line: usize, message: impl Into<String>) -> Self {
        Self::error(format!("{}:{}", file.path, line + 1), message)
    }

    fn warning(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into(), severity: Severity::Warning }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_error() { "error" } else { "warning" };
        write!(formatter, "{word}: {}: {}", self.place, self.message)
    }
}

/// One rule.
pub type Rule = fn(&Tree) -> Vec<Problem>;

/// All rules.
pub const RULES: &[Rule] = &[
    tiers::every_crate_has_a_tier,
    tiers::dependencies_point_downwards,
    tiers::rooms_do_not_know_what_they_must_not,
    tiers::reserved_libraries_stay_in_their_rooms,
    packages::licences_are_allowed,
    packages::banned_packages_are_absent,
    packages::packages_come_from_a_registry,
    code::unsafe_lives_in_jail_alone,
    code::modules_say_what_they_are,
    code::files_stay_short,
    code::no_leftovers_in_code,
    text::no_paths_of_one_machine,
    text::todo_names_an_issue,
    text::lines_end_cleanly,
    wording::no_retired_words,
    documents::links_resolve,
    documents::changelog_has_unreleased,
    documents::decisions_are_linked,
    documents::claims_have_their_cases,
    documents::ground_documents_exist,
    documents::usual_terms_lead_to_files,
];

/// Applies all rules.
pub fn check(tree: &Tree) -> Vec<Problem> {
    RULES.iter().flat_map(|rule| rule(tree)).collect()
}

/// Prints the problems, errors last so that they are still on the screen.
pub fn print(problems: &[Problem]) {
    for severity in [Severity::Warning, Severity::Error] {
        problems.iter().filter(|p| p.severity == severity).for_each(|p| println!("{p}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_is_tidy() {
        let tree = Tree::read(&crate::settings::workspace_root()).expect("read the tree");
        assert!(tree.files.len() > 20, "the tree was not read");
        let errors: Vec<String> =
            check(&tree).iter().filter(|p| p.is_error()).map(ToString::to_string).collect();
        assert!(errors.is_empty(), "\n{}", errors.join("\n"));
    }
}
