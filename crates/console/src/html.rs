//! Pieces of HTML that several pages share, and the one place where text becomes HTML.
//!
//! Invariant: text from outside reaches a page through the escaping of a template or through [`text`].
//! Both make markup inert; [`text`] also shows control characters and changes of writing direction,
//! which could otherwise make a call look like another one.

use std::{fmt, time::Duration};

use ringfence_types::{Bytes, Timestamp};

/// HTML that is complete and safe to write into a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Html(pub(crate) String);

impl fmt::Display for Html {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl askama::filters::HtmlSafe for Html {}

/// Text as HTML.
pub(crate) fn text(text: &str) -> Html {
    let mut out = String::with_capacity(text.len() + 16);
    push_text(&mut out, text);
    Html(out)
}

/// Appends text as HTML.
pub(crate) fn push_text(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(character),
            hidden if is_hidden(hidden) => {
                // Writing to a string cannot fail.
                let _ = fmt::Write::write_fmt(
                    out,
                    format_args!("<span class=\"hidden-char\">U+{:04X}</span>", u32::from(hidden)),
                );
            }
            plain => out.push(plain),
        }
    }
}

/// Whether a character changes how others look without being seen itself: control characters, marks of
/// writing direction, characters without width, tags.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{00AD}'
                | '\u{061C}'
                | '\u{180E}'
                | '\u{200B}'..='\u{200F}'
                | '\u{2028}'..='\u{202E}'
                | '\u{2060}'..='\u{206F}'
                | '\u{FEFF}'
                | '\u{FFF9}'..='\u{FFFB}'
                | '\u{E0000}'..='\u{E007F}'
        )
}

/// Output of a program: escape sequences of terminals are left out, other hidden characters are shown.
pub(crate) fn output(bytes: &[u8]) -> Html {
    let plain = without_escapes(&String::from_utf8_lossy(bytes));
    text(&plain.replace("\r\n", "\n"))
}

/// Text without escape sequences of terminals (ECMA-48): `ESC [ … final` and `ESC ] … BEL`.
fn without_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        if character != '\u{1B}' {
            out.push(character);
            continue;
        }
        match rest.next() {
            Some('[') => while rest.next().is_some_and(|c| !('\u{40}'..='\u{7E}').contains(&c)) {},
            Some(']' | 'P' | '_' | '^' | 'X') => {
                while let Some(c) = rest.next() {
                    if c == '\u{07}' || (c == '\u{1B}' && rest.next_if_eq(&'\\').is_some()) {
                        break;
                    }
                }
            }
            // `ESC ( B` and its like have one more character.
            Some('(' | ')' | '#' | '%' | ' ') => drop(rest.next()),
            Some(_) | None => {}
        }
    }
    out
}

/// A moment: relative to now, with the exact one in its title.
pub(crate) fn time(at: Timestamp, now: Timestamp) -> Html {
    Html(format!("<time datetime=\"{at}\" title=\"{at}\">{}</time>", relative(at, now)))
}

/// A moment in words, such as `3 min ago` and `in 2 h`.
fn relative(at: Timestamp, now: Timestamp) -> String {
    let (since, until) = (now.since(at), at.since(now));
    match since.max(until).as_secs() {
        0..2 => "just now".to_owned(),
        _ if until > since => format!("in {}", rough(until)),
        _ => format!("{} ago", rough(since)),
    }
}

/// A duration in its largest unit.
pub(crate) fn rough(duration: Duration) -> String {
    match duration.as_secs() {
        secs @ 0..60 => format!("{secs} s"),
        secs @ 60..3_600 => format!("{} min", secs / 60),
        secs @ 3_600..172_800 => format!("{} h", secs / 3_600),
        secs => format!("{} days", secs / 86_400),
    }
}

/// A duration to three digits: `812 µs`, `4.21 ms`, `1.30 s`, `2 min 5 s`.
pub(crate) fn precise(duration: Duration) -> String {
    let micros = duration.as_micros();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{:.2} ms", micros as f64 / 1e3),
        10_000..100_000 => format!("{:.1} ms", micros as f64 / 1e3),
        100_000..1_000_000 => format!("{} ms", micros / 1_000),
        1_000_000..60_000_000 => format!("{:.2} s", duration.as_secs_f64()),
        _ => format!("{} min {} s", duration.as_secs() / 60, duration.as_secs() % 60),
    }
}

/// A number of bytes as people write it.
pub(crate) fn bytes(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// An id with a button that copies it. `shown` is the part of it that is shown.
pub(crate) fn id(whole: &str, shown: &str) -> Html {
    let (whole, shown) = (text(whole), text(shown));
    Html(format!(
        "<span class=\"id\"><code title=\"{whole}\">{shown}</code><button type=\"button\" \
         class=\"copy\" data-copy=\"{whole}\" aria-label=\"Copy {whole}\" hidden>copy</button></span>"
    ))
}

/// The last characters of a call's id, which differ from call to call.
pub(crate) fn short_id(whole: &str) -> &str {
    let start = whole.len().saturating_sub(8);
    whole.get(start..).unwrap_or(whole)
}

/// A digest, shortened.
pub(crate) fn digest(whole: &str) -> Html {
    let bare = whole.strip_prefix("sha256:").unwrap_or(whole);
    id(whole, bare.get(..12).unwrap_or(bare))
}

/// A state with its meaning as a colour.
pub(crate) fn state(name: &str, is_error: bool) -> Html {
    let (tone, words) = match name {
        "finished" if is_error => ("bad", "failed"),
        "finished" => ("good", "finished"),
        "held" => ("wait", "held"),
        "denied" => ("bad", "denied"),
        "running" => ("busy", "running"),
        "dispatched" | "accepted" => ("busy", name),
        "cancelling" => ("busy", "cancelling"),
        "outcome_unknown" => ("bad", "outcome unknown"),
        other => ("calm", other),
    };
    pill(tone, words)
}

/// A few words with a meaning as a colour.
pub(crate) fn pill(tone: &str, words: &str) -> Html {
    Html(format!("<span class=\"pill {tone}\">{}</span>", text(words)))
}

/// A share of a limit as a bar.
pub(crate) fn bar(used: f64, allowed: f64) -> Html {
    let share = if allowed > 0.0 { (used / allowed * 100.0).clamp(0.0, 100.0) } else { 0.0 };
    let tone = if share >= 90.0 {
        "bad"
    } else if share >= 70.0 {
        "wait"
    } else {
        "good"
    };
    // A share that is not nothing is seen.
    let width = if used > 0.0 { share.max(1.0) } else { 0.0 };
    Html(format!(
        "<svg class=\"bar\" viewBox=\"0 0 100 6\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect class=\"track\" width=\"100\" height=\"6\"/><rect class=\"{tone}\" \
         width=\"{width:.1}\" height=\"6\"/></svg>"
    ))
}

/// A part of a whole of which more is better, as a bar.
pub(crate) fn meter(part: f64, whole: f64) -> Html {
    let share = if whole > 0.0 { (part / whole * 100.0).clamp(0.0, 100.0) } else { 0.0 };
    Html(format!(
        "<svg class=\"bar\" viewBox=\"0 0 100 6\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect class=\"track\" width=\"100\" height=\"6\"/><rect class=\"busy\" \
         width=\"{share:.1}\" height=\"6\"/></svg>"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_hidden_characters_are_inert() {
        assert_eq!(text("<b onclick='x'>&\"").0, "&lt;b onclick=&#39;x&#39;&gt;&amp;&quot;");
        assert_eq!(text("a\u{202E}b").0, "a<span class=\"hidden-char\">U+202E</span>b");
        assert_eq!(text("a\nb\tc").0, "a\nb\tc");
        assert_eq!(text("\u{1B}[31m").0, "<span class=\"hidden-char\">U+001B</span>[31m");
    }

    #[test]
    fn escape_sequences_of_terminals_are_left_out() {
        for (bytes, expected) in [
            ("\u{1B}[31mred\u{1B}[0m", "red"),
            ("\u{1B}]0;title\u{07}text", "text"),
            ("\u{1B}]8;;http://x\u{1B}\\link\u{1B}]8;;\u{1B}\\", "link"),
            ("\u{1B}(Bx\u{1B}", "x"),
            ("a\r\nb", "a\nb"),
        ] {
            assert_eq!(output(bytes.as_bytes()).0, expected, "{bytes:?}");
        }
        assert_eq!(output(b"\xFF<i>").0, "\u{FFFD}&lt;i&gt;");
    }

    #[test]
    fn moments_are_relative_and_durations_short() {
        let now = Timestamp::from_micros(1_700_000_000_000_000);
        let before = |secs: i64| Timestamp::from_micros(now.as_micros() - secs * 1_000_000);
        for (secs, expected) in [
            (0, "just now"),
            (30, "30 s ago"),
            (200, "3 min ago"),
            (7_300, "2 h ago"),
            (300_000, "3 days ago"),
            (-200, "in 3 min"),
        ] {
            assert_eq!(relative(before(secs), now), expected);
        }
        assert_eq!(precise(Duration::from_micros(4_210)), "4.21 ms");
        assert_eq!(precise(Duration::from_secs(125)), "2 min 5 s");
    }
}
