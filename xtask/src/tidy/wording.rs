//! Rules about wording: retired words, openings of doc comments, and names.
//!
//! Text is plain technical English with the noun first, and a name can be understood in a search
//! result.

use super::lexer::{code_only, has_word};
use super::text::EXCEPTION;
use super::{File, Problem, Tree};

/// This file, whose tables contain every retired word.
const OWN: &str = "xtask/src/tidy/wording.rs";

/// Prefix of sample texts, which are ordinary prose.
const SAMPLES: &str = "skills/tests/";

/// Retired words of any text, with their replacement.
const WORDS: &[(&str, &str)] = &[
    ("anybody", "name the person or part, or use the passive"),
    ("everybody", "name the people or parts, or `all callers`"),
    ("nobody", "`no caller`, `no process`, or the passive"),
    ("somebody", "name the person or part, or use the passive"),
    ("whoever", "name the person or part, such as `the caller`"),
];

/// Words with which no doc comment begins: it begins with the thing that it describes.
const OPENINGS: &[&str] = &["How", "Of", "Those", "What", "Which", "Who", "Whose"];

/// Retired identifiers, with their replacement.
const IDENTIFIERS: &[(&str, &str)] = &[
    ("AFTER_YOU", "TEARDOWN_DELAY"),
    ("Asker", "Client"),
    ("Burial", "Teardown"),
    ("ENOUGH", "MAX_<WHAT> or MIN_<WHAT>"),
    ("FIRST_STEPS", "SPARE_DELAY"),
    ("Journey", "ActiveCall"),
    ("LAST_BREATH", "EXIT_TIMEOUT"),
    ("LAST_WORDS", "DRAIN_TIMEOUT"),
    ("LEAST", "MIN_<WHAT>"),
    ("LONGEST", "MAX_<WHAT>"),
    ("Laps", "StageSpans"),
    ("MOST", "MAX_<WHAT>"),
    ("Notary", "CheckpointSigner"),
    ("Onward", "DetachOnDrop"),
    ("PATIENCE", "<WHAT>_TIMEOUT"),
    ("Pen", "LedgerGuard"),
    ("Plot", "Reservation"),
    ("Remains", "Leftovers"),
    ("SECOND_THOUGHTS", "NETNS_IDLE"),
    ("SHORTEST", "MIN_<WHAT>"),
    ("Said", "the name of what it holds, such as `OpaResponse`"),
    ("Witness", "TransactionHook"),
    ("beget", "fork_child"),
    ("see_to_it", "ensure_in_cgroup"),
];

/// Retired modules, with their replacement.
const MODULES: &[(&str, &str)] = &[
    ("crates/cli/src/mapping", "copy_spec"),
    ("crates/cli/src/plan", "run_request"),
    ("crates/cli/src/words", "limit_text"),
    ("crates/engine/src/accept/earlier", "idempotency"),
    ("crates/hostile/src/attacks/hoards", "kernel_objects"),
    ("crates/hostile/src/ground", "context"),
    ("crates/hostile/src/judge", "evaluation"),
    ("crates/jail/src/clerk", "syscall_responder"),
    ("crates/ledger/src/absent", "missing_artifacts"),
    ("crates/ledger/src/given_again", "memo_source"),
    ("crates/ledger/src/proved", "inclusion"),
    ("crates/policy/src/document", "answer"),
    ("crates/policy/src/numbers", "metrics"),
    ("crates/policy/src/rego/again", "replay"),
    ("crates/policy/src/rego/brief", "inline_safe"),
    ("crates/policy/src/rego/here", "inline"),
    ("crates/policy/src/rego/index/cut", "subset"),
    ("crates/policy/src/rego/index/shelf", "engine_cache"),
    ("crates/policy/src/said", "answer"),
    ("crates/policy/src/ticks", "change_feed"),
    ("crates/sandbox/src/cell", "jailed"),
    ("crates/sandbox/src/clerk", "syscall_responder"),
    ("crates/sandbox/src/follow", "follower"),
    ("crates/sandbox/src/live", "supervisor"),
    ("crates/sandbox/src/own", "own_files"),
    ("crates/sandbox/src/session/interpreter/recipe", "start_spec"),
    ("crates/sandbox/src/session/interpreter/said", "driver_frame"),
    ("crates/sandbox/src/spare", "spare_group"),
];

/// Text, doc comments and names are free of retired words.
pub(super) fn no_retired_words(tree: &Tree) -> Vec<Problem> {
    let is_exempt = |file: &&File| file.path == OWN || file.path.starts_with(SAMPLES);
    tree.files.iter().filter(|file| !is_exempt(file)).flat_map(findings).collect()
}

fn findings(file: &File) -> Vec<Problem> {
    let mut found = words(file);
    if let Some(path) = file.path.strip_suffix(".rs") {
        found.extend(openings(file));
        found.extend(identifiers(file));
        let path = path.strip_suffix("/mod").unwrap_or(path);
        let retired = MODULES.iter().find(|(module, _)| *module == path);
        found.extend(retired.map(|(_, plain)| {
            Problem::error(&file.path, format!("retired module name: use `{plain}`"))
        }));
    }
    found
}

fn words(file: &File) -> Vec<Problem> {
    let mut found = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        let lower = line.to_ascii_lowercase();
        let parts = || lower.split(|c: char| !c.is_alphanumeric());
        for (word, plain) in WORDS.iter().filter(|(word, _)| parts().any(|part| part == *word)) {
            if !line.contains(EXCEPTION) {
                found.push(Problem::at(file, number, format!("retired word `{word}`: {plain}")));
            }
        }
    }
    found
}

/// Doc comments that begin with one of [`OPENINGS`].
fn openings(file: &File) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for (number, line) in file.text.lines().enumerate() {
        let text = line.trim_start();
        let comment = text.strip_prefix("///").or_else(|| text.strip_prefix("//!"));
        let first = comment.and_then(|comment| comment.split_whitespace().next());
        let opening = first.filter(|word| !is_inside && OPENINGS.contains(word));
        found.extend(opening.map(|word| {
            let message = format!("doc comment begins with `{word}`: begin with the noun");
            Problem::at(file, number, message)
        }));
        is_inside = comment.is_some();
    }
    found
}

fn identifiers(file: &File) -> Vec<Problem> {
    let mut found = Vec::new();
    for (number, line) in code_only(&file.text).lines().enumerate() {
        for (name, plain) in IDENTIFIERS.iter().filter(|(name, _)| has_word(line, name)) {
            let message = format!("retired name `{name}`: use {plain}");
            found.push(Problem::at(file, number, message));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tree::sample;
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        no_retired_words(&sample(path, text)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn retired_words_are_found_in_text_and_in_names() {
        assert_eq!(
            messages("docs/x.md", "Plain.\nWhoever asks.\n"),
            [
                "error: docs/x.md:2: retired word `whoever`: name the person or part, such as `the caller`"
            ]
        );
        assert_eq!(messages("crates/a/src/b.rs", "fn it_delays_nobody() {}\n").len(), 1);
        assert_eq!(messages("docs/x.md", "Somebody (tidy-ok: a quotation)\n").len(), 0);
        assert_eq!(messages("docs/x.md", "The caller asks.\n").len(), 0);
    }

    #[test]
    fn a_doc_comment_begins_with_the_noun() {
        let count = |text: &str| messages("crates/a/src/b.rs", text).len();
        assert_eq!(count("/// What it is.\nstruct A;\n"), 1);
        assert_eq!(count("//! How it works.\n"), 1);
        assert_eq!(count("/// Name of it,\n/// Of a kind.\nstruct A;\n"), 0, "continuation");
        assert_eq!(count("/// Whatever.\n// What a plain comment says.\nstruct A;\n"), 0);
    }

    #[test]
    fn retired_names_are_found_in_code_but_not_in_prose() {
        let count = |text: &str| messages("crates/a/src/b.rs", text).len();
        assert_eq!(count("const PATIENCE: u8 = 1;\nstruct Said;\n"), 2);
        assert_eq!(count("// PATIENCE\nconst MAX_LONGEST_LINE: &str = \"MOST\";\n"), 0);
        assert_eq!(messages("crates/policy/src/rego/here.rs", "\n").len(), 1);
        assert_eq!(messages("crates/policy/src/ticks/mod.rs", "\n").len(), 1);
    }
}
