//! Packages of others: licences, banned crates and sources, by `deny.toml`.
//!
//! This is the part of `cargo deny check` that needs neither a network nor the tool itself; advisories
//! need its database.

use super::{Problem, Tree};

const RULES_FILE: &str = "deny.toml";

/// Every package of others has a licence that `deny.toml` allows.
pub(super) fn licences_are_allowed(tree: &Tree) -> Vec<Problem> {
    let allowed = strings_after(tree, "\nallow = [");
    let is_allowed = |licence: &str| allowed.contains(&licence);
    tree.packages
        .iter()
        .filter(|package| !Expression::new(&package.licence).holds(&is_allowed))
        .map(|package| {
            let message = format!("licence `{}` is not allowed by {RULES_FILE}", package.licence);
            Problem::error(&package.name, message)
        })
        .collect()
}

/// No package that `deny.toml` bans is used.
pub(super) fn banned_packages_are_absent(tree: &Tree) -> Vec<Problem> {
    let banned = strings_after(tree, "\ndeny = [");
    let used = tree.packages.iter().filter(|package| banned.contains(&package.name.as_str()));
    used.map(|package| Problem::error(&package.name, format!("is banned by {RULES_FILE}")))
        .collect()
}

/// Packages come from a registry: a repository can be changed under its name.
pub(super) fn packages_come_from_a_registry(tree: &Tree) -> Vec<Problem> {
    let others = tree.packages.iter().filter(|package| {
        !package.source.starts_with("registry+") && !package.source.starts_with("sparse+")
    });
    others.map(|package| Problem::error(&package.name, "does not come from a registry")).collect()
}

/// First quoted text of each line of a list in `deny.toml`.
fn strings_after<'a>(tree: &'a Tree, start: &str) -> Vec<&'a str> {
    let rest = tree.text(RULES_FILE).and_then(|text| text.split_once(start));
    let list = rest.and_then(|(_, rest)| rest.split_once("\n]")).map_or("", |(list, _)| list);
    list.lines().filter_map(|line| line.split('"').nth(1)).collect()
}

/// Licence expression: `MIT OR (Apache-2.0 AND ISC)`, also with the older `/` for `OR`.
struct Expression<'a> {
    words: Vec<&'a str>,
}

impl<'a> Expression<'a> {
    fn new(text: &'a str) -> Self {
        let mut words = Vec::new();
        for word in text.split([' ', '/']).filter(|word| !word.is_empty()) {
            let inner = word.trim_start_matches('(');
            words.extend(std::iter::repeat_n("(", word.len() - inner.len()));
            let name = inner.trim_end_matches(')');
            words.push(name);
            words.extend(std::iter::repeat_n(")", inner.len() - name.len()));
        }
        words.reverse();
        Self { words }
    }

    /// Whether the allowed licences satisfy it; an expression that cannot be read is not satisfied.
    fn holds(mut self, is_allowed: &impl Fn(&str) -> bool) -> bool {
        let holds = self.any(is_allowed);
        holds && self.words.is_empty()
    }

    fn any(&mut self, is_allowed: &impl Fn(&str) -> bool) -> bool {
        let mut holds = self.all(is_allowed);
        while let Some(word) = self.words.last().copied() {
            match word {
                ")" => break,
                "OR" => {
                    self.words.pop();
                }
                // Two names side by side: the older `/`.
                _ => {}
            }
            holds |= self.all(is_allowed);
        }
        holds
    }

    fn all(&mut self, is_allowed: &impl Fn(&str) -> bool) -> bool {
        let mut holds = self.one(is_allowed);
        while self.words.last() == Some(&"AND") {
            self.words.pop();
            holds &= self.one(is_allowed);
        }
        holds
    }

    fn one(&mut self, is_allowed: &impl Fn(&str) -> bool) -> bool {
        match self.words.pop() {
            Some("(") => {
                let holds = self.any(is_allowed);
                self.words.pop() == Some(")") && holds
            }
            Some(name) if self.words.last() == Some(&"WITH") => {
                self.words.pop();
                let exception = self.words.pop().unwrap_or_default();
                is_allowed(&format!("{name} WITH {exception}"))
            }
            Some(name) => is_allowed(name),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::{Package, sample};
    use super::*;

    const RULES: &str = "[licenses]\nallow = [\n  \"MIT\",\n  \"ISC\",\n  \"A WITH x\",\n]\n\n[bans]\ndeny = [\n  { crate = \"bad\" },\n]\n";

    fn with(name: &str, licence: &str, source: &str) -> Tree {
        let mut tree = sample(RULES_FILE, RULES);
        let (name, licence, source) = (name.to_owned(), licence.to_owned(), source.to_owned());
        tree.packages.push(Package { name, licence, source });
        tree
    }

    #[test]
    fn a_licence_expression_is_evaluated() {
        for (licence, is_allowed) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("", false),
            ("GPL-3.0 OR MIT", true),
            ("MIT AND GPL-3.0", false),
            ("MIT/GPL-3.0", true),
            ("GPL-3.0/LGPL-3.0", false),
            ("(MIT OR GPL-3.0) AND ISC", true),
            ("(MIT OR GPL-3.0) AND GPL-3.0", false),
            ("GPL-3.0 OR (MIT AND ISC)", true),
            ("A WITH x", true),
            ("A WITH y OR GPL-3.0", false),
            ("(MIT", false),
        ] {
            let problems = licences_are_allowed(&with("x", licence, "registry+x"));
            assert_eq!(problems.is_empty(), is_allowed, "{licence}");
        }
    }

    #[test]
    fn a_banned_package_and_a_repository_are_named() {
        let tree = with("bad", "MIT", "git+x");
        assert_eq!(banned_packages_are_absent(&tree).len(), 1);
        assert_eq!(packages_come_from_a_registry(&tree).len(), 1);
        let tree = with("good", "MIT", "registry+x");
        assert!(banned_packages_are_absent(&tree).is_empty());
        assert!(packages_come_from_a_registry(&tree).is_empty());
    }
}
