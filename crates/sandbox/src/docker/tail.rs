//! Separation of a program's error output from the report that follows it.

use ringfence_jail::container::{Finish, MAX_FINISH, Mark};

use crate::output::Output;

/// Reader of the error stream of a container.
#[derive(Debug)]
pub(super) struct Tail {
    mark: Mark,
    /// Last bytes, if they may be the beginning of the mark.
    held: Vec<u8>,
    /// Bytes behind the mark, once it came.
    report: Option<Vec<u8>>,
}

impl Tail {
    pub(super) fn new(mark: Mark) -> Self {
        Self { mark, held: Vec::new(), report: None }
    }

    /// Passes the program's bytes on to its output and keeps those of the report.
    pub(super) fn feed(&mut self, bytes: &[u8], output: &Output) {
        if let Some(report) = &mut self.report {
            let room = (MAX_FINISH + 4).saturating_sub(report.len());
            report.extend_from_slice(&bytes[..bytes.len().min(room)]);
            return;
        }
        self.held.extend_from_slice(bytes);
        let at = self.held.windows(self.mark.len()).position(|window| window == self.mark);
        let own = at.unwrap_or_else(|| self.held.len() - self.beginning());
        if own > 0 {
            output.append(&self.held[..own]);
        }
        self.held.drain(..own);
        if at.is_some() {
            let report = self.held.split_off(self.mark.len());
            self.held.clear();
            self.report = Some(report);
        }
    }

    /// Length of the longest end of the held bytes that the mark begins with.
    fn beginning(&self) -> usize {
        let most = self.held.len().min(self.mark.len() - 1);
        let fits = |length: &usize| self.held.ends_with(&self.mark[..*length]);
        (1..=most).rev().find(fits).unwrap_or(0)
    }

    /// The report, if it is complete; else what was held is the program's own.
    pub(super) fn finish(self, output: &Output) -> Option<Finish> {
        if !self.held.is_empty() {
            output.append(&self.held);
        }
        let report = self.report?;
        let (length, body) = report.split_at_checked(4)?;
        let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
        postcard::from_bytes(body.get(..length)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ringfence_jail::container::End;

    use super::*;

    const MARK: Mark = [b'm'; 32];

    fn stream(before: &[u8], finish: &Finish) -> Vec<u8> {
        let body = postcard::to_allocvec(finish).unwrap();
        let length = (body.len() as u32).to_le_bytes();
        [before, &MARK[..], &length[..], &body[..]].concat()
    }

    #[test]
    fn without_a_report_every_byte_is_the_program_s() {
        let (mut tail, output) = (Tail::new(MARK), Output::new(100));
        tail.feed(b"text mmm", &output);
        assert_eq!(output.kept(), b"text ", "it may go on as the mark");
        assert_eq!(tail.finish(&output), None);
        assert_eq!(output.kept(), b"text mmm");
    }

    #[test]
    fn a_report_that_breaks_off_is_none() {
        let finish = Finish::Ended(End { code: Some(3), ..End::default() });
        let whole = stream(b"x", &finish);
        let (mut tail, output) = (Tail::new(MARK), Output::new(100));
        tail.feed(&whole[..whole.len() - 1], &output);
        assert_eq!((tail.finish(&output), output.kept()), (None, b"x".to_vec()));
    }

    proptest! {
        #[test]
        fn the_report_is_found_wherever_the_stream_is_cut(
            // Bytes that often look like the mark, but never hold it.
            before in proptest::collection::vec(prop_oneof![Just(b'm'), any::<u8>()], 0..31),
            cuts in proptest::collection::vec(1_usize..9, 200),
        ) {
            let before = [&before[..], b"."].concat();
            let finish = Finish::Ended(End { signal: Some(9), processes: 7, ..End::default() });
            let whole = stream(&before, &finish);
            let (mut tail, output) = (Tail::new(MARK), Output::new(1000));
            let mut left = &whole[..];
            for cut in cuts {
                let (first, rest) = left.split_at(cut.min(left.len()));
                tail.feed(first, &output);
                left = rest;
            }
            tail.feed(left, &output);
            prop_assert_eq!(tail.finish(&output), Some(finish));
            prop_assert_eq!(output.kept(), before);
        }
    }
}
