//! Facts that were not observed of a call, in plain words: without them, a reader would take silence
//! for absence.

use std::borrow::Cow;

use super::ReceiptDetails;
use crate::{Finished, State, Stream};

type Words = Cow<'static, str>;

/// Unobserved facts of a call in this final state.
pub(super) fn words(state: &State, details: &ReceiptDetails) -> Vec<Words> {
    match state {
        State::Finished(finished) => of_finished(finished, details),
        State::Cancelled { .. } => vec!["what it did and printed before it was stopped".into()],
        State::OutcomeUnknown => {
            vec!["whether it ran to its end, what it produced, what it changed outside".into()]
        }
        _ => Vec::new(),
    }
}

fn of_finished(finished: &Finished, details: &ReceiptDetails) -> Vec<Words> {
    let mut words = Vec::new();
    if finished.memoised.is_some() {
        words.push("a run: the result is that of the earlier call, see its receipt".into());
    } else if finished.layers.is_some() {
        words.push(
            "what the program did inside its sandbox, beyond its output and what it used".into(),
        );
    } else if finished.is_success() {
        words.push("what it used: it ran in the server itself, without a sandbox".into());
    }
    words.extend(gap("standard output", &finished.stdout));
    words.extend(gap("standard error", &finished.stderr));
    let omitted = finished.files.as_ref().map_or(0, |files| files.omitted_count);
    if omitted > 0 {
        words.push(format!("the content of {omitted} files that were not stored").into());
    }
    if !details.egress.is_empty() {
        words.push("what the contacted servers did with the request".into());
    }
    words
}

fn gap(name: &str, stream: &Stream) -> Option<Words> {
    let gap = stream.truncated?;
    Some(format!("{} bytes of its {name} from offset {}", gap.dropped, gap.at).into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Flow, Json, Layers, Produced, Timestamp, Truncated};

    fn finished() -> Finished {
        Finished {
            produced: Produced::Result(Json::empty_object()),
            true_result: None,
            outputs_hash: String::new(),
            outcome: None,
            stdout: Stream::default(),
            stderr: Stream::default(),
            usage: None,
            isolation: None,
            layers: None,
            files: None,
            started_at: Timestamp::from_micros(0),
            duration: Duration::ZERO,
            memoised: None,
            tokens: None,
        }
    }

    fn told(finished: Finished, details: &ReceiptDetails) -> Vec<Words> {
        words(&State::Finished(Box::new(finished)), details)
    }

    #[test]
    fn what_was_dropped_is_told_by_number() {
        let truncated = Some(Truncated { at: 1_000, dropped: 70 });
        let stdout = Stream { length: 2_000, digest: None, truncated };
        let layers = Some(Layers::default());
        let words = told(Finished { stdout, layers, ..finished() }, &ReceiptDetails::default());
        assert!(words[0].contains("inside its sandbox"), "{words:?}");
        assert_eq!(words[1], "70 bytes of its standard output from offset 1000");
    }

    #[test]
    fn a_call_with_egress_has_unobserved_effects() {
        let flow = Flow { host: "a".into(), ..Flow::default() };
        let details = ReceiptDetails { egress: vec![flow], ..ReceiptDetails::default() };
        let words = told(finished(), &details);
        assert!(words.iter().any(|words| words.contains("contacted servers")), "{words:?}");
        assert!(
            told(finished(), &ReceiptDetails::default())
                .iter()
                .all(|words| !words.contains("servers"))
        );
    }

    #[test]
    fn a_call_that_never_ran_hides_nothing() {
        assert_eq!(
            words(&State::Denied { reasons: Vec::new() }, &ReceiptDetails::default()),
            [""; 0]
        );
        assert_eq!(words(&State::OutcomeUnknown, &ReceiptDetails::default()).len(), 1);
    }
}
