//! Rust source with everything but code blanked out.
//!
//! Not a parser: just enough of the lexical grammar (comments, strings, raw strings, characters
//! against lifetimes) that a word found in the rest is a token and not prose.

/// Source with comments, strings and characters replaced by spaces; lines stay where they are.
pub(super) fn code_only(source: &str) -> String {
    let characters: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    while at < characters.len() {
        let length = skipped(&characters[at..], code.chars().next_back());
        if length == 0 {
            code.push(characters[at]);
            at += 1;
            continue;
        }
        let end = (at + length).min(characters.len());
        code.extend(characters[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
        at = end;
    }
    code
}

/// Whether the word occurs in the output of [`code_only`], as a whole identifier.
pub(super) fn has_word(code: &str, word: &str) -> bool {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
}

/// Number of characters here that are not code; 0 if the first one is.
fn skipped(rest: &[char], before: Option<char>) -> usize {
    let is_in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    match rest {
        ['/', '/', ..] => rest.iter().position(|&c| c == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => block_comment(rest),
        ['"', ..] => quoted(rest, '"'),
        ['r', '"' | '#', ..] if !is_in_word => raw_string(&rest[1..]).map_or(0, |n| n + 1),
        ['b' | 'c', 'r', '"' | '#', ..] if !is_in_word => {
            raw_string(&rest[2..]).map_or(0, |n| n + 2)
        }
        // A lifetime has no closing quote right after its first character.
        ['\'', '\\', ..] | ['\'', _, '\'', ..] => quoted(rest, '\''),
        _ => 0,
    }
}

fn quoted(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of a raw string that starts with its hashes; `None` for a raw identifier.
fn raw_string(rest: &[char]) -> Option<usize> {
    let hashes = rest.iter().take_while(|&&c| c == '#').count();
    if rest.get(hashes) != Some(&'"') {
        return None;
    }
    let is_end = |at: &usize| {
        rest[*at] == '"'
            && rest[at + 1..].iter().take(hashes).filter(|&&c| c == '#').count() == hashes
    };
    let end = (hashes + 1..rest.len()).find(is_end);
    Some(end.map_or(rest.len(), |at| at + 1 + hashes))
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps(source: &str, expected: &str) {
        let squeezed: Vec<String> =
            code_only(source).split_whitespace().map(str::to_owned).collect();
        assert_eq!(squeezed.join(" "), expected, "{source}");
    }

    #[test]
    fn prose_is_not_code() {
        keeps("a // b\nc", "a c");
        keeps("a /* b /* c */ d */ e", "a e");
        keeps(r#"a("b \" c")d"#, "a( )d");
        keeps(r###"a(r#"b " c"#)d"###, "a( )d");
        keeps(r#"a(br"\")d"#, "a( )d");
        keeps("a('\"')b", "a( )b");
        keeps(r"a('\'')b", "a( )b");
    }

    #[test]
    fn code_that_looks_like_prose_stays() {
        keeps("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}");
        keeps("r#type + bar\"x\"", "r#type + bar");
        keeps("a / b * c", "a / b * c");
    }

    #[test]
    fn lines_stay_where_they_are() {
        assert_eq!(code_only("/*\n\n*/x\n\"\n\"y").matches('\n').count(), 4);
    }

    #[test]
    fn unfinished_input_ends() {
        for source in ["\"", "/*", "r#\"", "'\\", "\"\\"] {
            assert_eq!(code_only(source).trim(), "", "{source}");
        }
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("unsafe { x }", "unsafe"));
        assert!(!has_word("unsafe_code not_unsafe", "unsafe"));
    }
}
