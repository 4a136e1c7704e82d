//! Aligned tables without borders. What came from elsewhere cannot move the cursor.

/// Columns of a terminal that nobody made wider.
const WIDTH: usize = 80;

/// Rows under their titles.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    rows: Vec<[String; N]>,
    /// Lines beneath rows: how many rows there were, and the line.
    notes: Vec<(usize, String)>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(titles: [&str; N]) -> Self {
        Self { rows: vec![titles.map(str::to_owned)], notes: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| plain(&cell)));
    }

    /// A line of its own beneath the last row, indented.
    pub(crate) fn note(&mut self, text: &str) {
        self.notes.push((self.rows.len(), format!("  {}", plain(text))));
    }

    /// The table, each line cut to the width of a terminal. Only the last column and notes may be cut:
    /// other columns must be short by themselves.
    pub(crate) fn fitted(&self) -> String {
        self.text().lines().map(|line| cut(line, WIDTH) + "\n").collect()
    }

    /// The last column is as long as it is; the others are as wide as their longest cell.
    pub(crate) fn text(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: [usize; N] = std::array::from_fn(width);
        let line = |row: &[String; N]| {
            let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
            format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
        };
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            text += &line(row);
            let beneath = self.notes.iter().filter(|(rows, _)| *rows == index + 1);
            beneath.for_each(|(_, note)| text.extend([note.as_str(), "\n"]));
        }
        text
    }
}

/// The text, or its beginning with `…` in place of the rest.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => {
            text.chars().take(most.saturating_sub(1)).collect::<String>().trim_end().to_owned()
                + "…"
        }
        false => text.to_owned(),
    }
}

/// Without control characters, on one line, and with nothing that cannot be seen: whoever decides by
/// what is shown must see what there is, in its order.
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

/// Marks of direction, which let text be read in another order than it has; what has no width; and
/// the invisible letters of tags.
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
    fn lines_fit_a_terminal_and_say_where_they_were_cut() {
        let mut table = Table::new(["NAME", "DESCRIPTION"]);
        table.row(["a".to_owned(), "word ".repeat(30)]);
        table.note(&"é".repeat(100));
        let text = table.fitted();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let ends: Vec<_> = text.lines().map(|line| line.ends_with('…')).collect();
        assert_eq!(ends, [false, true, true]);
        assert_eq!((cut("abc", 3), cut("abcd", 3)), ("abc".to_owned(), "ab…".to_owned()));
    }

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        let shown = plain("to \u{202e}moc.elpmaxe@b\u{202c} a\u{200b}b\u{e0041}");
        assert_eq!(shown, "to \\u202emoc.elpmaxe@b\\u202c a\\u200bb\\ue0041");
        assert_eq!(plain("naïve 日本 🙂 שלום"), "naïve 日本 🙂 שלום", "the control");
    }
}
