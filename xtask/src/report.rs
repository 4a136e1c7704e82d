//! Result table at the end of `cargo xtask test`.

use std::fmt::Write as _;
use std::time::Duration;

/// Number of checks by result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passed.
    pub passed: u64,
    /// Failed, or could not run although it had to.
    pub failed: u64,
    /// Skipped, for a reason that was printed.
    pub skipped: u64,
    /// Attacks that were held although their control does not apply on this host.
    pub unproven: u64,
}

impl Counts {
    /// One check that passed or failed.
    pub fn one(has_passed: bool) -> Self {
        let (passed, failed) = (u64::from(has_passed), u64::from(!has_passed));
        Self { passed, failed, ..Self::default() }
    }

    /// Sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
            unproven: self.unproven + other.unproven,
        }
    }
}

/// Line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Name of the suite.
    pub suite: String,
    /// Kernel, control groups and identity.
    pub against: String,
    /// Number of checks by result.
    pub counts: Counts,
    /// Duration of the suite.
    pub took: Duration,
    /// Failed checks, each with the beginning of its output.
    pub failures: Vec<String>,
}

/// Table, below it the failures, and the closing line: the end of a long output has everything that
/// matters.
pub fn render(rows: &[Row]) -> String {
    let total = rows.iter().fold(Counts::default(), |sum, row| sum.plus(row.counts));
    let header = ["suite", "against", "passed", "failed", "skipped", "unproven", "seconds"];
    let mut lines = vec![header.map(str::to_owned)];
    lines.extend(rows.iter().map(cells));
    let mut text = format!("{}\n", align(&lines));
    for row in rows {
        for failure in &row.failures {
            let _ = writeln!(text, "FAILED {}: {failure}\n", row.suite);
        }
    }
    let _ = writeln!(text, "{}", closing_line(total));
    text
}

/// `N passed, M failed, K skipped`, and `, U unproven` if there are such attacks.
pub fn closing_line(total: Counts) -> String {
    let Counts { passed, failed, skipped, unproven } = total;
    let line = format!("{passed} passed, {failed} failed, {skipped} skipped");
    if unproven == 0 { line } else { format!("{line}, {unproven} unproven") }
}

/// Aligned columns without borders: the first two to the left, numbers to the right.
pub fn align<const N: usize>(lines: &[[String; N]]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let mut text = String::new();
    for line in lines {
        let mut rendered = String::new();
        for (column, cell) in line.iter().enumerate() {
            let pad = widths[column];
            let _ = match column {
                0 => write!(rendered, "{cell:<pad$}"),
                1 => write!(rendered, "  {cell:<pad$}"),
                _ => write!(rendered, "  {cell:>pad$}"),
            };
        }
        text.push_str(rendered.trim_end());
        text.push('\n');
    }
    text
}

fn cells(row: &Row) -> [String; 7] {
    [
        row.suite.clone(),
        row.against.clone(),
        row.counts.passed.to_string(),
        row.counts.failed.to_string(),
        row.counts.skipped.to_string(),
        row.counts.unproven.to_string(),
        format!("{:.1}", row.took.as_secs_f64()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_aligned_and_ends_with_the_plain_line() {
        let row = |suite: &str,
                   against: &str,
                   [passed, failed, skipped, unproven]: [u64; 4],
                   millis| Row {
            suite: suite.to_owned(),
            against: against.to_owned(),
            counts: Counts { passed, failed, skipped, unproven },
            took: Duration::from_millis(millis),
            failures: (0..failed).map(|_| "a_test\nthe reason".to_owned()).collect(),
        };
        let rows = [
            row("types", "no kernel", [120, 0, 0, 0], 40),
            row("vm", "kernel 6.1", [3, 1, 2, 40], 12_340),
        ];
        let expected = "suite  against     passed  failed  skipped  unproven  seconds\n\
                        types  no kernel      120       0        0         0      0.0\n\
                        vm     kernel 6.1       3       1        2        40     12.3\n\n\
                        FAILED vm: a_test\nthe reason\n\n\
                        123 passed, 1 failed, 2 skipped, 40 unproven\n";
        assert_eq!(render(&rows), expected);
    }

    #[test]
    fn no_rows_still_print_the_closing_line() {
        assert!(render(&[]).ends_with("0 passed, 0 failed, 0 skipped\n"));
    }
}
