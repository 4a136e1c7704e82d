//! Aligned tables without borders. What came from elsewhere cannot move the cursor.

/// Rows under their titles.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(titles: [&str; N]) -> Self {
        Self { rows: vec![titles.map(str::to_owned)] }
    }

    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| plain(&cell)));
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
        self.rows.iter().map(line).collect()
    }
}

/// Without control characters, on one line.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
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
}
