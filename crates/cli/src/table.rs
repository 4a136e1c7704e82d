//! Aligned tables without borders. Untrusted text cannot move the cursor.

use crate::style::{self, Tone};

/// Lines of a folded note.
const MAX_FOLDED_LINES: usize = 4;

/// Rows under their titles.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    rows: Vec<Row<N>>,
    /// Lines beneath rows: index of the row, the line, and its maximum number of lines.
    notes: Vec<(usize, String, usize)>,
}

#[derive(Debug)]
struct Row<const N: usize> {
    cells: [String; N],
    /// Column with a tone.
    tone: Option<(usize, Tone)>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(titles: [&str; N]) -> Self {
        let row = Row { cells: titles.map(str::to_owned), tone: None };
        Self { rows: vec![row], notes: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(Row { cells: cells.map(|cell| plain(&cell)), tone: None });
    }

    /// Adds a row with a tone in one column.
    pub(crate) fn toned_row(&mut self, cells: [String; N], column: usize, tone: Tone) {
        let cells = cells.map(|cell| plain(&cell));
        self.rows.push(Row { cells, tone: Some((column, tone)) });
    }

    /// Adds a line beneath the last row, indented and cut to the width.
    pub(crate) fn note(&mut self, text: &str) {
        self.notes.push((self.rows.len(), plain(text), 1));
    }

    /// Adds a text beneath the last row, indented, folded to the width and cut after a few lines.
    pub(crate) fn folded(&mut self, text: &str) {
        self.notes.push((self.rows.len(), plain(text), MAX_FOLDED_LINES));
    }

    /// The table for standard output, each line cut to its width. Only the last column and notes may be
    /// cut: other columns must be short by themselves.
    pub(crate) fn fitted(&self) -> String {
        self.render(style::width(), style::has_colour())
    }

    /// The table with lines of any length.
    pub(crate) fn text(&self) -> String {
        self.render(usize::MAX, false)
    }

    fn render(&self, width: usize, has_colour: bool) -> String {
        let column_width = |column: usize| {
            let cells = self.rows.iter().map(|row| row.cells[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: [usize; N] = std::array::from_fn(column_width);
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            let cells = row.cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
            let line = cut(cells.collect::<Vec<_>>().join("  ").trim_end(), width);
            match row.tone.filter(|_| has_colour) {
                Some((column, tone)) => {
                    let before: usize = widths[..column].iter().map(|width| width + 2).sum();
                    text += &painted(&line, before, row.cells[column].chars().count(), tone);
                }
                None => text += &line,
            }
            text.push('\n');
            for (_, note, lines) in self.notes.iter().filter(|(rows, ..)| *rows == index + 1) {
                for line in fold(note, width.saturating_sub(2), *lines) {
                    text += &format!("  {line}\n");
                }
            }
        }
        text
    }
}

/// The line with `length` characters from `start` on in a tone.
fn painted(line: &str, start: usize, length: usize, tone: Tone) -> String {
    let at = |chars: usize| line.char_indices().nth(chars).map_or(line.len(), |(byte, _)| byte);
    let (start, end) = (at(start), at(start + length));
    format!("{}{}{}", &line[..start], tone.paint(&line[start..end]), &line[end..])
}

/// The text on lines of at most `width` characters; the last of `max_lines` is cut.
pub(crate) fn fold(text: &str, width: usize, max_lines: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut lines: Vec<String> =
        chars.chunks(width.max(1)).map(|chunk| chunk.iter().collect()).collect();
    if lines.len() > max_lines {
        lines.truncate(max_lines);
        if let Some(last) = lines.last_mut() {
            *last = cut(&format!("{last}…"), width);
        }
    }
    lines
}

/// The text, or its beginning and `…`.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => {
            text.chars().take(most.saturating_sub(1)).collect::<String>().trim_end().to_owned()
                + "…"
        }
        false => text.to_owned(),
    }
}

/// Text on one line, with control and invisible characters escaped: a person who decides by it must
/// see all of it, in its order.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_control() => out.push(' '),
            c if is_unseen(c) => out += &format!("\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out
}

/// Whether a character is invisible: marks of direction, characters without width, and tag letters.
fn is_unseen(c: char) -> bool {
    matches!(
        u32::from(c),
        0xad | 0x61c | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff
            | 0xfff9..=0xfffb | 0xe0000..=0xe0fff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_cells_stay_on_their_line() {
        let mut table = Table::new(["NAME", "STATE"]);
        table.row(["a-long-name".to_owned(), "held".to_owned()]);
        table.row(["é".to_owned(), "x\n\u{1b}[2J".to_owned()]);
        assert_eq!(table.text(), "NAME         STATE\na-long-name  held\né            x  [2J\n");
    }

    #[test]
    fn lines_fit_the_width_and_say_where_they_were_cut() {
        let mut table = Table::new(["NAME", "DESCRIPTION"]);
        table.row(["a".to_owned(), "word ".repeat(30)]);
        table.note(&"é".repeat(100));
        table.folded(&"x".repeat(100));
        table.folded(&"y".repeat(1000));
        let text = table.render(80, false);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let ends: Vec<_> = text.lines().map(|line| line.ends_with('…')).collect();
        let folded = [false, false];
        let long = [false, false, false, true];
        assert_eq!(ends, [&[false, true, true][..], &folded, &long].concat(), "{text}");
        assert_eq!((cut("abc", 3), cut("abcd", 3)), ("abc".to_owned(), "ab…".to_owned()));
    }

    #[test]
    fn a_tone_takes_no_room() {
        let mut table = Table::new(["CALL", "STATE", "TOOL"]);
        table.toned_row(["é1".to_owned(), "held".to_owned(), "echo".to_owned()], 1, Tone::Waiting);
        let line = table.render(80, true).lines().nth(1).unwrap().to_owned();
        assert_eq!(line, "é1    \u{1b}[33mheld\u{1b}[0m   echo");
        assert_eq!(table.render(80, false).lines().nth(1), Some("é1    held   echo"));
        let cut = table.render(9, true);
        assert_eq!(cut.lines().nth(1), Some("é1    \u{1b}[33mhe…\u{1b}[0m"));
    }

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        let shown = plain("to \u{202e}moc.elpmaxe@b\u{202c} a\u{200b}b\u{e0041}");
        assert_eq!(shown, "to \\u202emoc.elpmaxe@b\\u202c a\\u200bb\\ue0041");
        assert_eq!(plain("naïve 日本 🙂 שלום"), "naïve 日本 🙂 שלום", "the control");
    }
}
