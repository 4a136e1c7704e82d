//! Frames of a driver in a session.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{Completions, Status, Variable, events::Raised};

/// One frame. A frame with missing or wrong fields, which a hostile program may send, is ignored:
/// see [`DriverFrame::parse`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "ev", rename_all = "snake_case")]
pub(super) enum DriverFrame {
    Ready,
    Started {
        id: Option<u64>,
    },
    Result {
        id: Option<u64>,
        main: bool,
        data: BTreeMap<String, Value>,
    },
    Error {
        id: Option<u64>,
        #[serde(flatten)]
        raised: Raised,
    },
    Done {
        id: Option<u64>,
        status: FrameStatus,
        execution_count: u64,
    },
    Variables {
        id: Option<u64>,
        #[serde(default)]
        variables: Option<Vec<Variable>>,
        #[serde(default)]
        error: Option<Value>,
    },
    Completions {
        id: Option<u64>,
        #[serde(flatten)]
        completions: Option<Completions>,
        #[serde(default)]
        error: Option<Value>,
    },
    Reset {
        id: Option<u64>,
    },
    Refused {
        id: Option<u64>,
        message: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FrameStatus {
    Ok,
    Error,
    Interrupted,
}

impl From<FrameStatus> for Status {
    fn from(frame: FrameStatus) -> Self {
        match frame {
            FrameStatus::Ok => Self::Ok,
            FrameStatus::Error => Self::Error,
            FrameStatus::Interrupted => Self::Interrupted,
        }
    }
}

impl DriverFrame {
    /// Parses a frame; one that is not understood is [`DriverFrame::Other`], which is ignored.
    pub(super) fn parse(frame: &[u8]) -> Self {
        serde_json::from_slice(frame).unwrap_or(Self::Other)
    }

    /// Id of the execution or question that it is about.
    pub(super) fn id(&self) -> Option<u64> {
        match self {
            Self::Started { id }
            | Self::Result { id, .. }
            | Self::Error { id, .. }
            | Self::Done { id, .. }
            | Self::Variables { id, .. }
            | Self::Completions { id, .. }
            | Self::Reset { id }
            | Self::Refused { id, .. } => *id,
            Self::Ready | Self::Other => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(frame: &str, expected: DriverFrame) {
        assert_eq!(DriverFrame::parse(frame.as_bytes()), expected, "{frame}");
    }

    #[test]
    fn each_kind_of_frame_is_understood() {
        check(r#"{"ev":"ready"}"#, DriverFrame::Ready);
        check(r#"{"ev":"started","id":3}"#, DriverFrame::Started { id: Some(3) });
        check(
            r#"{"ev":"done","id":3,"status":"interrupted","execution_count":2}"#,
            DriverFrame::Done { id: Some(3), status: FrameStatus::Interrupted, execution_count: 2 },
        );
        let raised = Raised {
            name: "ValueError".to_owned(),
            value: "x".to_owned(),
            traceback: vec!["a".to_owned()],
        };
        check(
            r#"{"ev":"error","id":3,"name":"ValueError","value":"x","traceback":["a"]}"#,
            DriverFrame::Error { id: Some(3), raised },
        );
    }

    #[test]
    fn a_frame_of_another_shape_means_nothing() {
        for frame in [
            "",
            "[]",
            "{}",
            r#"{"ev":1}"#,
            r#"{"ev":"done","id":3}"#,
            r#"{"ev":"news","id":1}"#,
            r#"{"ev":"done","id":-1,"status":"ok","execution_count":1}"#,
            r#"{"ev":"result","id":1,"main":true,"data":[]}"#,
        ] {
            check(frame, DriverFrame::Other);
        }
        let deep =
            format!(r#"{{"ev":"result","id":1,"main":true,"data":{{"a":{}"#, "[".repeat(9999));
        check(&deep, DriverFrame::Other);
    }

    proptest! {
        #[test]
        fn no_frame_panics(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = DriverFrame::parse(&bytes);
        }
    }
}
