//! Rules about any text.

use super::{Problem, Tree};

/// Paths that exist on one machine only. Split, so that this table does not find itself.
const MACHINE_PATHS: &[&str] =
    &[concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/")];

/// Marker of a line that must break a rule of this file.
pub(super) const EXCEPTION: &str = "tidy-ok: ";

/// No paths of one machine.
pub(super) fn no_paths_of_one_machine(tree: &Tree) -> Vec<Problem> {
    lines_where(tree, |line| {
        let found = MACHINE_PATHS.iter().find(|path| line.contains(**path))?;
        Some(format!("`{found}` is a path of one machine"))
    })
}

/// Every open task names an issue.
pub(super) fn todo_names_an_issue(tree: &Tree) -> Vec<Problem> {
    lines_where(tree, |line| {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '#' && c != '_');
        let word = words.find(|word| [concat!("TO", "DO"), concat!("FIX", "ME")].contains(word))?;
        let has_issue =
            line.split('#').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        (!has_issue).then(|| format!("`{word}` names no issue (`#123`)"))
    })
}

/// No trailing blanks, no carriage returns, one newline at the end.
pub(super) fn lines_end_cleanly(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in &tree.files {
        for (number, line) in file.text.split('\n').enumerate() {
            if line.ends_with([' ', '\t', '\r']) {
                problems.push(Problem::at(file, number, "the line ends with a blank"));
            }
        }
        let is_clean = file.text.ends_with('\n') && !file.text.ends_with("\n\n");
        if !file.text.is_empty() && !is_clean {
            problems.push(Problem::error(&file.path, "must end with exactly one newline"));
        }
    }
    problems
}

fn lines_where(tree: &Tree, judge: impl Fn(&str) -> Option<String>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in &tree.files {
        let mut previous = "";
        for (number, line) in file.text.lines().enumerate() {
            let is_excepted = [previous, line].iter().any(|line| line.contains(EXCEPTION));
            if let Some(message) = judge(line).filter(|_| !is_excepted) {
                problems.push(Problem::at(file, number, message));
            }
            previous = line;
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::tree::sample;
    use super::*;

    #[test]
    fn machine_paths_are_found_unless_excepted() {
        let count = |text: &str| no_paths_of_one_machine(&sample("a.md", text)).len();
        let path = MACHINE_PATHS[0];
        assert_eq!(count(&format!("see {path}me/x\n")), 1);
        assert_eq!(count(&format!("see {path}me/x (tidy-ok: what an attacker tries)\n")), 0);
        assert_eq!(count(&format!("# tidy-ok: attack\n{path}\nx\n{path}\n")), 1);
        assert_eq!(count("/usr/bin/python3 in /workspace/x\n"), 0);
    }

    #[test]
    fn a_wish_needs_an_issue() {
        let count = |text: &str| todo_names_an_issue(&sample("a.rs", text)).len();
        let word = concat!("TO", "DO");
        assert_eq!(count(&format!("// {word}: later\n")), 1);
        assert_eq!(count(&format!("// {word}(#12): later\n")), 0);
        assert_eq!(count(&format!("let {word}_LIST = 1;\n")), 0);
    }

    #[test]
    fn blanks_at_the_end_are_found() {
        let count = |text: &str| lines_end_cleanly(&sample("a.rs", text)).len();
        assert_eq!(count("x\ny\n"), 0);
        assert_eq!(count("x \ny\t\nz\r\n"), 3);
        assert_eq!(count("x"), 1);
        assert_eq!(count("x\n\n"), 1);
        assert_eq!(count(""), 0);
    }
}
