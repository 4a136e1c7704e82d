//! Nesting depth of brackets in a file, measured before parsing.
//!
//! The parser tries each bracket first as a comprehension and then as a list, so its time doubles
//! with every level: thirty opening brackets would keep it busy for hours.

/// Nesting limit of brackets.
pub(super) const DEPTH: usize = 16;

/// First line on which brackets nest too deep.
pub(super) fn too_deep(text: &str) -> Option<u32> {
    let mut depth = 0_usize;
    let mut line = 1;
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'\n' => line += 1,
            b'#' => line += u32::from(rest.any(|byte| byte == b'\n')),
            b'"' => skip_text(&mut rest),
            b'`' => line += skip_raw(&mut rest),
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH {
            return Some(line);
        }
    }
    None
}

/// Skips to the end of a string, which is on one line.
fn skip_text(rest: &mut std::str::Bytes<'_>) {
    while let Some(byte) = rest.next() {
        match byte {
            b'\\' => drop(rest.next()),
            b'"' => return,
            _ => {}
        }
    }
}

/// Skips to the end of a raw string; returns its number of lines.
fn skip_raw(rest: &mut std::str::Bytes<'_>) -> u32 {
    rest.take_while(|byte| *byte != b'`').map(|byte| u32::from(byte == b'\n')).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_brackets_of_the_rules_count() {
        let fits = "[".repeat(DEPTH);
        assert_eq!(too_deep(&fits), None);
        assert_eq!(too_deep(&format!("\n# [\n`\n[`\n\"[\\\"[\"\n{fits}")), None);
        assert_eq!(too_deep(&format!("\n# [\n`\n[`\n\"[\\\"[\"\n{fits}(")), Some(6));
        assert_eq!(too_deep(&"{}".repeat(100)), None);
    }
}
