//! Rules about Rust source.

use super::lexer::{code_only, has_word};
use super::{File, Problem, Tree};

/// Number of lines from which a file gets a warning.
const WARN_LINES: usize = 600;
/// Number of lines from which a file is refused.
const MAX_LINES: usize = 1000;
/// Files with long lists of equal small things, which may have any length.
const TABLES: &[&str] = &[];

/// Attributes that hide a test's result: one that does not run, one that passes on any panic.
const BANNED_ATTRIBUTES: &[&str] = &["ignore", "should_panic"];

/// Paths that may have `unsafe`: the jail, and what a client library offers in no other way.
const UNSAFE: &[&str] = &["crates/jail/", "crates/bus/src/kafka/raw.rs"];

/// `unsafe` is only in the `jail` crate, and in one file beside it.
pub(super) fn unsafe_lives_in_jail_alone(tree: &Tree) -> Vec<Problem> {
    let is_allowed = |f: &&File| UNSAFE.iter().any(|path| f.path.starts_with(path));
    let outside = tree.with_extension("rs").filter(|f| !is_allowed(f));
    lines_where(outside, |line| has_word(line, "unsafe"), "`unsafe` belongs in crates/jail alone")
}

/// Every module begins with a comment on its purpose.
pub(super) fn modules_say_what_they_are(tree: &Tree) -> Vec<Problem> {
    let is_module = |file: &&File| file.path.contains("src/") && !file.path.ends_with("/tests.rs");
    tree.with_extension("rs")
        .filter(is_module)
        .filter(|file| !file.text.lines().any(|line| line.starts_with("//!")))
        .map(|file| Problem::error(&file.path, "has no module documentation (`//!`)"))
        .collect()
}

/// Files stay short.
pub(super) fn files_stay_short(tree: &Tree) -> Vec<Problem> {
    let judge = |file: &File| {
        let lines = file.text.lines().count();
        let message = format!("has {lines} lines; split it");
        match lines {
            MAX_LINES.. => Some(Problem::error(&file.path, message)),
            WARN_LINES.. => Some(Problem::warning(&file.path, message)),
            _ => None,
        }
    };
    tree.with_extension("rs")
        .filter(|file| !TABLES.contains(&file.path.as_str()))
        .filter_map(judge)
        .collect()
}

/// Debugging aids, disabled tests and blanket lint exceptions do not land.
pub(super) fn no_leftovers_in_code(tree: &Tree) -> Vec<Problem> {
    let files = || tree.with_extension("rs");
    let mut problems =
        lines_where(files(), |line| line.contains("dbg!("), "`dbg!` was left behind");
    problems.extend(lines_where(
        files(),
        |line| line.contains("#![allow("),
        "a blanket `#![allow]` hides the next mistake too; use `#[expect(…, reason)]` on the item",
    ));
    for attribute in BANNED_ATTRIBUTES {
        let is_banned = |line: &str| {
            line.trim_start().strip_prefix("#[").is_some_and(|rest| rest.starts_with(attribute))
        };
        let message = format!("`#[{attribute}]` makes a test that proves nothing");
        problems.extend(lines_where(files(), is_banned, &message));
    }
    problems
}

fn lines_where<'a>(
    files: impl Iterator<Item = &'a File>,
    is_bad: impl Fn(&str) -> bool,
    message: &str,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files {
        for (number, line) in code_only(&file.text).lines().enumerate() {
            if is_bad(line) {
                problems.push(Problem::at(file, number, message));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::tree::sample;
    use super::*;

    #[test]
    fn unsafe_outside_the_jail_is_found_with_its_line() {
        let source = "// unsafe\nfn f() { unsafe { g() } }\n";
        let problems = unsafe_lives_in_jail_alone(&sample("crates/cli/src/x.rs", source));
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].place, "crates/cli/src/x.rs:2");
        assert_eq!(unsafe_lives_in_jail_alone(&sample("crates/jail/src/x.rs", source)), []);
    }

    #[test]
    fn a_module_without_documentation_is_found() {
        assert_eq!(modules_say_what_they_are(&sample("crates/a/src/b.rs", "fn f() {}\n")).len(), 1);
        assert_eq!(modules_say_what_they_are(&sample("crates/a/src/b.rs", "//! B.\n")), []);
        assert_eq!(modules_say_what_they_are(&sample("crates/a/src/b/tests.rs", "")), []);
    }

    #[test]
    fn long_files_are_named_and_very_long_ones_refused() {
        let problems = |lines| files_stay_short(&sample("a.rs", &"x\n".repeat(lines)));
        assert_eq!(problems(599), []);
        assert!(!problems(600)[0].is_error());
        assert!(problems(1000)[0].is_error());
    }

    #[test]
    fn leftovers_are_found_in_code_but_not_in_prose() {
        let count = |text: &str| no_leftovers_in_code(&sample("a.rs", text)).len();
        assert_eq!(count("fn f() { dbg!(1); }\n"), 1);
        assert_eq!(count("#![allow(dead_code)]\n"), 1);
        assert_eq!(count("#[ignore = \"slow\"]\n#[should_panic]\n"), 2);
        assert_eq!(count("// dbg!(1) #[ignore]\nlet x = \"dbg!(1)\";\n"), 0);
    }
}
