//! Parts of arguments that a person who decides should not overlook.
//!
//! A hint and nothing more: policy decides by its own rules, and text without a mark is not harmless.

use crate::html::{Html, push_text};

/// Patterns in lower case, with the reason shown to the reader. A pattern that ends with a space is
/// followed by one.
const PATTERNS: &[(&str, &str)] = &[
    ("rm -rf", "deletes files recursively"),
    ("rm -r ", "deletes files recursively"),
    ("mkfs", "formats a file system"),
    ("dd if=", "writes to devices"),
    ("sudo ", "asks for the rights of root"),
    ("chmod 777", "opens files to all users"),
    ("| sh", "runs what it downloads"),
    ("|sh", "runs what it downloads"),
    ("| bash", "runs what it downloads"),
    ("|bash", "runs what it downloads"),
    ("os.system", "starts other programs"),
    ("subprocess", "starts other programs"),
    ("eval(", "runs text as code"),
    ("exec(", "runs text as code"),
    ("drop table", "deletes a table"),
    ("drop database", "deletes a database"),
    ("delete from", "deletes rows"),
    ("truncate table", "deletes all rows"),
    ("grant all", "gives rights away"),
    ("/etc/passwd", "names accounts of the host"),
    ("/etc/shadow", "names passwords of the host"),
    (".ssh/", "names SSH keys"),
    ("id_rsa", "names an SSH key"),
    (".aws/credentials", "names cloud credentials"),
    ("169.254.169.254", "address of cloud metadata"),
    ("metadata.google.internal", "address of cloud metadata"),
    ("-----begin", "looks like a private key or certificate"),
    ("rf_", "looks like a key of this server"),
    ("sk-", "looks like an API key"),
    ("ghp_", "looks like an access token"),
    ("akia", "looks like a cloud access key"),
    ("password", "mentions a password"),
    ("ignore previous instructions", "looks like an instruction to a model"),
    ("ignore all previous", "looks like an instruction to a model"),
    ("../", "leaves its directory"),
    ("file://", "reads local files"),
    ("http://", "address without encryption"),
    ("https://", "address outside this server"),
    ("wire transfer", "mentions a payment"),
];

/// Longest text that is searched; the rest is shown without marks.
const MAX_SEARCHED: usize = 64 << 10;

/// Text as HTML with its risky parts marked.
pub(crate) fn marked(text: &str) -> Html {
    let mut out = String::with_capacity(text.len() + 64);
    let mut done = 0;
    for (start, end, reason) in found(text) {
        push_text(&mut out, &text[done..start]);
        out.push_str("<mark title=\"");
        out.push_str(reason);
        out.push_str("\">");
        push_text(&mut out, &text[start..end]);
        out.push_str("</mark>");
        done = end;
    }
    push_text(&mut out, &text[done..]);
    Html(out)
}

/// Reasons for the marks of a text, each once.
pub(crate) fn reasons(text: &str) -> Vec<&'static str> {
    let mut reasons: Vec<_> = matches(text).into_iter().map(|(_, _, reason)| reason).collect();
    reasons.sort_unstable();
    reasons.dedup();
    reasons
}

/// Marks in the order of the text, without overlap.
fn found(text: &str) -> Vec<(usize, usize, &'static str)> {
    let mut all = matches(text);
    all.sort_by_key(|(start, end, _)| (*start, usize::MAX - end));
    let mut done = 0;
    all.retain(|(start, end, _)| {
        let is_free = *start >= done;
        done = if is_free { *end } else { done };
        is_free
    });
    all
}

/// Places of all patterns. Addresses reach to their end.
fn matches(text: &str) -> Vec<(usize, usize, &'static str)> {
    let searched = &text[..text.floor_char_boundary(MAX_SEARCHED)];
    // In ASCII lower case every character stays where it is.
    let lower = searched.to_ascii_lowercase();
    let mut all = Vec::new();
    for (pattern, reason) in PATTERNS {
        for (start, _) in lower.match_indices(pattern) {
            if is_inside_word(&lower, start, pattern) {
                continue;
            }
            let end = match pattern.ends_with("://") {
                true => start + address_length(&lower[start..]),
                false => start + pattern.trim_end().len(),
            };
            all.push((start, end, *reason));
        }
    }
    all
}

/// Whether a pattern that begins with a letter continues a longer word, as in `task-` for `sk-`.
fn is_inside_word(lower: &str, start: usize, pattern: &str) -> bool {
    let begins_with_letter = pattern.as_bytes()[0].is_ascii_alphanumeric();
    begins_with_letter
        && lower[..start].chars().next_back().is_some_and(|before| before.is_alphanumeric())
}

fn address_length(text: &str) -> usize {
    text.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | ')' | '`'))
        .unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn risky_parts_are_marked_and_stay_text() {
        assert_eq!(
            marked("sudo rm -rf / <b>").0,
            "<mark title=\"asks for the rights of root\">sudo</mark> \
             <mark title=\"deletes files recursively\">rm -rf</mark> / &lt;b&gt;"
        );
        assert_eq!(
            marked("see https://a.example/x?y=1 now").0,
            "see <mark title=\"address outside this server\">https://a.example/x?y=1</mark> now"
        );
        assert_eq!(marked("a task-force").0, "a task-force");
        assert_eq!(marked("é sudo x").0.matches("<mark").count(), 1);
    }

    #[test]
    fn long_and_odd_texts_do_no_harm() {
        let long = "é".repeat(100_000);
        assert_eq!(marked(&long).0.len(), long.len());
        assert_eq!(reasons("drop table a; DROP TABLE b"), ["deletes a table"]);
    }
}
