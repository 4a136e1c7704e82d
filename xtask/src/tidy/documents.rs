//! Rules about documentation.

use std::collections::BTreeSet;

use super::{File, Problem, Tree};

const THREAT_MODEL: &str = "docs/threat-model.md";
const DECISIONS: &str = "docs/decisions/";
const ATTACKS: &str = "crates/hostile/src/attacks/";

/// Documents without which the project cannot be used, judged or changed.
const REQUIRED_DOCUMENTS: &[&str] = &[
    ".ci/run",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "deny.toml",
    THREAT_MODEL,
];

/// The documents that every checkout has.
pub(super) fn ground_documents_exist(tree: &Tree) -> Vec<Problem> {
    REQUIRED_DOCUMENTS
        .iter()
        .filter(|path| !exists(tree, path))
        .map(|path| Problem::error(*path, "is missing"))
        .collect()
}

/// Heading of the table of usual terms in `ARCHITECTURE.md`.
const TERMS_HEADING: &str = "### Usual terms and their files";

/// Terms that the table must have.
const TERMS: &[&str] = &[
    "request timeout",
    "retry of a held call",
    "key cache",
    "checkpoint signing",
    "zygote fork",
    "result validation",
    "rate limit",
];

/// Each usual term leads by its search to a file that contains the searched text.
pub(super) fn usual_terms_lead_to_files(tree: &Tree) -> Vec<Problem> {
    let Some(page) = tree.files.iter().find(|file| file.path == "ARCHITECTURE.md") else {
        return Vec::new();
    };
    let table = page.text.split_once(TERMS_HEADING).map_or("", |(_, rest)| rest);
    let table = table.split_once("\n#").map_or(table, |(table, _)| table);
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')))
        .map(Iterator::collect)
        .filter(|cells: &Vec<&str>| cells.len() == 3 && cells[2].contains('/'))
        .collect();
    let missing = TERMS.iter().filter(|term| !rows.iter().any(|row| row[0] == **term));
    let mut problems: Vec<Problem> =
        missing.map(|term| Problem::error(&page.path, format!("no row about `{term}`"))).collect();
    for row in &rows {
        let found = tree.files.iter().find(|file| file.path == row[2]);
        let searched = row[1].to_ascii_lowercase();
        if !found.is_some_and(|file| file.text.to_ascii_lowercase().contains(&searched)) {
            let message = format!("`{}` is not in `{}`", row[1], row[2]);
            problems.push(Problem::error(&page.path, message));
        }
    }
    problems
}

/// Relative links resolve.
pub(super) fn links_resolve(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.with_extension("md") {
        for (number, line) in prose_lines(&file.text) {
            for target in link_targets(line) {
                if !target.is_empty() && !exists(tree, &resolve(&file.path, target)) {
                    problems.push(Problem::at(
                        file,
                        number,
                        format!("links to `{target}`, which is not there"),
                    ));
                }
            }
        }
    }
    problems
}

/// The changelog has an `Unreleased` section.
pub(super) fn changelog_has_unreleased(tree: &Tree) -> Vec<Problem> {
    let text = tree.text("CHANGELOG.md").unwrap_or_default();
    if text.lines().any(|line| line.trim() == "## Unreleased") {
        return Vec::new();
    }
    vec![Problem::error("CHANGELOG.md", "has no `## Unreleased` section")]
}

/// Every decision is linked from the index.
pub(super) fn decisions_are_linked(tree: &Tree) -> Vec<Problem> {
    let mut linked = BTreeSet::new();
    for file in tree.with_extension("md") {
        let lines = prose_lines(&file.text);
        linked.extend(
            lines
                .flat_map(|(_, line)| link_targets(line))
                .map(|target| resolve(&file.path, target)),
        );
    }
    tree.with_extension("md")
        .filter(|file| file.path.starts_with(DECISIONS) && !linked.contains(&file.path))
        .map(|file| Problem::error(&file.path, "no document links to this decision"))
        .collect()
}

/// Every case named in the threat model exists in code.
pub(super) fn claims_have_their_cases(tree: &Tree) -> Vec<Problem> {
    let tests = || tree.with_extension("rs").map(tests_of);
    let mut code: BTreeSet<String> = tests().flat_map(case_ids).map(str::to_owned).collect();
    code.extend(tests().flat_map(named_after));
    let Some(model) = tree.files.iter().find(|file| file.path == THREAT_MODEL) else {
        return Vec::new();
    };
    let claimed =
        model.text.lines().enumerate().flat_map(|(n, line)| case_ids(line).map(move |id| (n, id)));
    claimed
        .filter(|(_, id)| !code.contains(*id))
        .map(|(number, id)| Problem::at(model, number, format!("no test carries the case `{id}`")))
        .collect()
}

/// Part of a file in which naming a case means testing it: the attacks of the suite, files of
/// tests, and the part after `#[cfg(test)]`. The rest of `hostile` uses ids as examples only.
fn tests_of(file: &File) -> &str {
    let path = file.path.as_str();
    if path.starts_with(ATTACKS) || (path.starts_with("crates/") && path.contains("/tests")) {
        return &file.text;
    }
    let is_product = path.starts_with("crates/") && !path.starts_with("crates/hostile/");
    let tests = file.text.find("#[cfg(test)]").filter(|_| is_product);
    tests.map_or("", |at| &file.text[at..])
}

/// Lines outside fenced code blocks, with their numbers.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Relative targets of `[text](target)` on a line, without their anchors.
fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split('#').next().unwrap_or_default())
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

fn exists(tree: &Tree, path: &str) -> bool {
    let directory = format!("{}/", path.trim_end_matches('/'));
    tree.paths.iter().any(|found| *found == path || *found == directory)
}

/// Words such as `F01` or `K05`: the letter of a class and two digits.
fn case_ids(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| {
        let bytes = word.as_bytes();
        bytes.len() == 3
            && b"FKIRNA".contains(&bytes[0])
            && bytes[1..].iter().all(u8::is_ascii_digit)
    })
}

/// Cases that give a test its name: `fn f01_a_link_is_refused` carries F01.
fn named_after(text: &str) -> impl Iterator<Item = String> {
    let names = text.lines().filter_map(|line| line.trim_start().strip_prefix("fn "));
    names.filter_map(|name| {
        let id = name.split_once('_')?.0.to_ascii_uppercase();
        case_ids(&id).next().map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree::{sample, samples};
    use super::*;

    #[test]
    fn dead_links_are_found_and_living_ones_are_not() {
        let count = |text: &str| links_resolve(&sample("docs/a.md", text)).len();
        assert_eq!(count("[x](b.md) and [y](../README.md#top)\n"), 2);
        assert_eq!(count("[x](a.md) [y](#here) [z](https://example.com/x) [d](../docs)\n"), 0);
        assert_eq!(count("```\n[x](b.md)\n```\n"), 0);
    }

    #[test]
    fn the_changelog_needs_its_section() {
        assert_eq!(changelog_has_unreleased(&sample("CHANGELOG.md", "# Changes\n")).len(), 1);
        assert_eq!(changelog_has_unreleased(&sample("CHANGELOG.md", "## Unreleased\n")), []);
    }

    #[test]
    fn an_orphaned_decision_is_found() {
        let decision = ("docs/decisions/0001-x.md", "# X\n");
        assert_eq!(decisions_are_linked(&samples(&[decision])).len(), 1);
        let index = ("ARCHITECTURE.md", "[x](docs/decisions/0001-x.md)\n");
        assert_eq!(decisions_are_linked(&samples(&[decision, index])), []);
    }

    #[test]
    fn a_claim_without_its_case_is_found() {
        let model = (THREAT_MODEL, "Symlinks lead nowhere (F01, F03).\n");
        let code = ("crates/hostile/src/attacks/x.rs", "const ID: &str = \"F01\";\n");
        let problems = claims_have_their_cases(&samples(&[model, code]));
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].message, "no test carries the case `F03`");
    }

    #[test]
    fn only_tests_carry_cases() {
        let carries = |path: &str, text: &str| {
            let model = (THREAT_MODEL, "No way out (F24).\n");
            claims_have_their_cases(&samples(&[model, (path, text)])).is_empty()
        };
        assert!(carries("crates/jail/src/seccomp/tests/equality.rs", "//! F24\n"));
        assert!(carries("crates/sandbox/src/a.rs", "#[cfg(test)]\nmod tests { /* F24 */ }\n"));
        assert!(!carries("crates/sandbox/src/a.rs", "// F24\n#[cfg(test)]\nmod tests {}\n"));
        assert!(!carries("crates/hostile/src/case.rs", "#[cfg(test)]\n// F24\n"));
        assert!(!carries("xtask/src/tests.rs", "F24"));
    }

    #[test]
    fn case_ids_are_whole_words() {
        assert_eq!(case_ids("F01,K24 x86 A1 F012 f01_a Z01").collect::<Vec<_>>(), ["F01", "K24"]);
    }

    #[test]
    fn missing_ground_is_found() {
        assert_eq!(ground_documents_exist(&Tree::default()).len(), REQUIRED_DOCUMENTS.len());
    }

    #[test]
    fn usual_terms_must_be_found_in_their_files() {
        let row = |term: &str| format!("| {term} | `word` | `crates/a/src/b.rs` |\n");
        let rows: String = TERMS.iter().map(|term| row(term)).collect();
        let page = format!("{TERMS_HEADING}\n\n| a | b | c |\n|---|---|---|\n{rows}\n## Next\n");
        let count = |page: &str, text: &str| {
            let tree = samples(&[("ARCHITECTURE.md", page), ("crates/a/src/b.rs", text)]);
            usual_terms_lead_to_files(&tree).len()
        };
        assert_eq!(count(&page, "// A Word."), 0);
        assert_eq!(count(&page, "// Another text."), TERMS.len(), "not in the file");
        assert_eq!(count("", "// A word."), TERMS.len(), "no rows");
    }
}
