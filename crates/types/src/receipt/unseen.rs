//! Facts that were not observed of a call, in plain words: without them, a reader would take silence
//! for absence.

use std::borrow::Cow;

use super::Seen;
use crate::{Finished, State, Stream};

type Words = Cow<'static, str>;

/// Unobserved facts of a call in this final state.
pub(super) fn words(state: &State, seen: &Seen) -> Vec<Words> {
    match state {
        State::Finished(finished) => of_finished(finished, seen),
        State::Cancelled { .. } => vec!["what it did and printed before it was stopped".into()],
        State::OutcomeUnknown => {
            vec!["whether it ran to its end, what it produced, what it changed outside".into()]
        }
        _ => Vec::new(),
    }
}

fn of_finished(finished: &Finished, seen: &Seen) -> Vec<Words> {
    let mut words = Vec::new();
    if finished.memoised.is_some() {
        words.push(
            "anything of a run: nothing ran, and the receipt of the earlier call tells".into(),
        );
    } else if finished.layers.is_some() {
        words.push(
            "what the program did inside its sandbox, beyond its output and what it used".into(),
        );
    } else if finished.is_success() {
        words.push("what it used: it ran in the server itself, without a sandbox".into());
    }
    words.extend(gap("standard output", &finished.stdout));
    words.extend(gap("standard error", &finished.stderr));
    if !seen.egress.is_empty() {
        words.push("what the servers it spoke to did with the request".into());
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
            started_at: Timestamp::from_micros(0),
            duration: Duration::ZERO,
            memoised: None,
        }
    }

    fn told(finished: Finished, seen: &Seen) -> Vec<Words> {
        words(&State::Finished(Box::new(finished)), seen)
    }

    #[test]
    fn what_was_dropped_is_told_by_number() {
        let truncated = Some(Truncated { at: 1_000, dropped: 70 });
        let stdout = Stream { length: 2_000, digest: None, truncated };
        let layers = Some(Layers::default());
        let words = told(Finished { stdout, layers, ..finished() }, &Seen::default());
        assert!(words[0].contains("inside its sandbox"), "{words:?}");
        assert_eq!(words[1], "70 bytes of its standard output from offset 1000");
    }

    #[test]
    fn a_call_with_egress_has_unobserved_effects() {
        let flow = Flow { host: "a".into(), peer: None, status: None, bytes: None };
        let seen = Seen { egress: vec![flow], ..Seen::default() };
        let words = told(finished(), &seen);
        assert!(words.iter().any(|words| words.contains("servers it spoke to")), "{words:?}");
        assert!(told(finished(), &Seen::default()).iter().all(|words| !words.contains("servers")));
    }

    #[test]
    fn a_call_that_never_ran_hides_nothing() {
        assert_eq!(words(&State::Denied { reasons: Vec::new() }, &Seen::default()), [""; 0]);
        assert_eq!(words(&State::OutcomeUnknown, &Seen::default()).len(), 1);
    }
}
