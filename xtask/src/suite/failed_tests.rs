//! Reports of failed tests, kept for the end of the output.

/// Lines kept per test: the panic and its location.
const MAX_REPORT_LINES: usize = 25;

/// Collector of reports of failed tests from the output of a test binary.
#[derive(Debug, Default)]
pub(super) struct FailedTests {
    reports: Vec<String>,
    /// Lines that the current report may still take.
    left: usize,
}

impl FailedTests {
    /// Takes the next line of the output.
    pub(super) fn line(&mut self, line: &str) {
        if let Some(name) = name(line) {
            self.reports.push(name.to_owned());
            self.left = MAX_REPORT_LINES;
        } else if line == "failures:" || line.starts_with("test result: ") {
            self.left = 0;
        } else if self.left > 0 && !line.trim().is_empty() {
            self.left -= 1;
            if let Some(report) = self.reports.last_mut() {
                report.push_str("\n    ");
                report.push_str(line);
            }
        }
    }

    /// Reports so far; the next binary begins anew.
    pub(super) fn take(&mut self) -> Vec<String> {
        self.left = 0;
        std::mem::take(&mut self.reports)
    }
}

/// `---- module::a_test stdout ----` → `module::a_test`.
fn name(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failed_test_is_kept_with_the_beginning_of_its_words() {
        let mut failed = FailedTests::default();
        let long = "a frame of the stack\n".repeat(MAX_REPORT_LINES + 9);
        let output = format!(
            "test a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- m::b stdout ----\n\
             thread 'm::b' panicked at x.rs:1:2:\nwhy\n\n---- m::c stdout ----\n{long}\n\n\
             failures:\n    m::b\n    m::c\n\ntest result: FAILED. 1 passed; 2 failed\n"
        );
        output.lines().for_each(|line| failed.line(line));
        let reports = failed.take();
        assert_eq!(reports.len(), 2);
        assert_eq!(reports[0], "m::b\n    thread 'm::b' panicked at x.rs:1:2:\n    why");
        assert_eq!(reports[1].lines().count(), MAX_REPORT_LINES + 1);
        assert!(failed.take().is_empty(), "the next binary begins anew");
    }
}
