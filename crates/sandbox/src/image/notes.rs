//! Notes of an import about entries that were changed or left out; bounded.

use crate::archive::{Note, UnpackReport};

/// Largest number of notes kept of one image; the rest is counted.
const MAX_NOTES: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Notes {
    kept: Vec<String>,
    more: u64,
}

impl Notes {
    pub(super) fn add(&mut self, entry: &str, what: &str) {
        if self.kept.len() < MAX_NOTES {
            self.kept.push(format!("{entry}: {what}"));
        } else {
            self.more += 1;
        }
    }

    /// Adds the notes of one archive or layer.
    pub(super) fn add_all(&mut self, report: &UnpackReport) {
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
        (0..MAX_NOTES + 3).for_each(|number| notes.add(&number.to_string(), "skipped"));
        notes.add_all(&UnpackReport { more_notes: 4, ..UnpackReport::default() });
        let list = notes.into_list();
        assert_eq!((list.len(), list[0].as_str()), (MAX_NOTES + 1, "0: skipped"));
        assert_eq!(list[MAX_NOTES], "and 7 more");
    }
}
