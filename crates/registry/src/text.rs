//! Untrusted text inside messages: shortened, and without control characters.

/// Length limit of a problem or message, in characters.
const MAX_MESSAGE_CHARS: usize = 400;

/// Length limit of a name, in characters.
const MAX_NAME_CHARS: usize = 80;

/// Untrusted name, fit to stand between backticks.
pub(crate) fn shown(name: &str) -> String {
    escaped(name, MAX_NAME_CHARS)
}

/// Message that may quote untrusted text.
pub(crate) fn message(text: &str) -> String {
    escaped(text, MAX_MESSAGE_CHARS)
}

fn escaped(text: &str, most: usize) -> String {
    let mut out = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == most {
            out.push('…');
            break;
        }
        if c.is_control() || is_invisible(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// Whether a character reorders or hides the text around it.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_is_short_and_visible() {
        assert_eq!(shown("a\u{1b}[2J\u{202e}b"), "a\\u{1b}[2J\\u{202e}b");
        assert_eq!(shown(&"x".repeat(500)).chars().count(), MAX_NAME_CHARS + 1);
    }
}
