//! What an import did not take as it was, for whoever imports: told, bounded, never an error.

use crate::archive::{Note, Report};

/// Notes kept of one image; the rest is counted.
const MOST: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Notes {
    kept: Vec<String>,
    more: u64,
}

impl Notes {
    pub(super) fn add(&mut self, entry: &str, what: &str) {
        if self.kept.len() < MOST {
            self.kept.push(format!("{entry}: {what}"));
        } else {
            self.more += 1;
        }
    }

    /// Those of one archive or layer.
    pub(super) fn add_all(&mut self, report: &Report) {
        report.notes.iter().for_each(|Note { entry, what }| self.add(entry, what));
        self.more += report.more_notes;
    }

    pub(super) fn into_list(mut self) -> Vec<String> {
        if self.more > 0 {
            self.kept.push(format!("and {} more", self.more));
        }
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_can_be_kept_are_counted() {
        let mut notes = Notes::default();
        (0..MOST + 3).for_each(|number| notes.add(&number.to_string(), "skipped"));
        notes.add_all(&Report { more_notes: 4, ..Report::default() });
        let list = notes.into_list();
        assert_eq!((list.len(), list[0].as_str()), (MOST + 1, "0: skipped"));
        assert_eq!(list[MOST], "and 7 more");
    }
}
