//! Text of others inside messages of ours: short, and without control characters.

/// The longest problem or message that leaves this crate, in characters.
const MESSAGE: usize = 400;

/// Names are shorter.
const NAME: usize = 80;

/// A name from outside, fit to stand between backticks.
pub(crate) fn shown(name: &str) -> String {
    escaped(name, NAME)
}

/// A whole message that may quote what came from outside.
pub(crate) fn message(text: &str) -> String {
    escaped(text, MESSAGE)
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

/// Characters that reorder or hide the text around them.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_is_short_and_visible() {
        assert_eq!(shown("a\u{1b}[2J\u{202e}b"), "a\\u{1b}[2J\\u{202e}b");
        assert_eq!(shown(&"x".repeat(500)).chars().count(), NAME + 1);
    }
}
