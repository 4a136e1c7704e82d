//! The channel to a driver: frames of JSON, both ways.
//!
//! The driver shares its process with the user's code, so everything it says is only what that
//! code could have said about itself.

use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

/// Longest frame a driver of one program has to say; a longer one is not from our driver, and
/// would only fill our memory.
const MOST_SAID: usize = 1 << 20;

/// A connected driver.
#[derive(Debug)]
pub(crate) struct Job {
    stream: UnixStream,
    buffer: Vec<u8>,
}

/// What a driver that runs one program says.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "ev", rename_all = "snake_case")]
pub(crate) enum Said {
    /// Warm, waiting for its job.
    Ready,
    /// The program ended and its output is flushed.
    Done {
        exit: i32,
        #[serde(default)]
        error: Option<Raised>,
    },
    /// Something a newer driver says.
    #[serde(other)]
    Other,
}

/// The error that ended an interpreted program.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Raised {
    #[serde(rename = "type", default)]
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) errno: Option<i32>,
}

impl Job {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// Sends one frame, made by [`crate::launch::frame`].
    pub(crate) async fn send(&mut self, frame: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(frame).await
    }

    /// The next frame's body; `None` at the end or on nonsense. Cancel safe.
    pub(crate) async fn frame(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(frame) = take_frame(&mut self.buffer, MOST_SAID)? {
                return Some(frame);
            }
            if self.stream.read_buf(&mut self.buffer).await.ok()? == 0 {
                return None;
            }
        }
    }

    /// The next thing said.
    pub(crate) async fn said(&mut self) -> Option<Said> {
        serde_json::from_slice(&self.frame().await?).ok()
    }
}

/// `None` for a length no frame may have; `Some(None)` while the frame is incomplete.
#[expect(clippy::option_option, reason = "the two layers mean hopeless and not yet")]
fn take_frame(buffer: &mut Vec<u8>, most: usize) -> Option<Option<Vec<u8>>> {
    let Some(head) = buffer.first_chunk::<4>() else { return Some(None) };
    let length = u32::from_le_bytes(*head) as usize;
    if length > most {
        return None;
    }
    if buffer.len() < 4 + length {
        return Some(None);
    }
    let rest = buffer.split_off(4 + length);
    let frame = std::mem::replace(buffer, rest);
    Some(Some(frame[4..].to_vec()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_panic_the_frame_reader(mut bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            while let Some(Some(_)) = take_frame(&mut bytes, MOST_SAID) {}
        }

        #[test]
        fn frames_survive_any_split(
            bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 1..5),
            step in 1_usize..7,
        ) {
            let wire: Vec<u8> = bodies
                .iter()
                .flat_map(|body| [&(body.len() as u32).to_le_bytes(), body.as_slice()].concat())
                .collect();
            let (mut buffer, mut seen) = (Vec::new(), Vec::new());
            for part in wire.chunks(step) {
                buffer.extend_from_slice(part);
                while let Some(Some(frame)) = take_frame(&mut buffer, MOST_SAID) {
                    seen.push(frame);
                }
            }
            prop_assert_eq!(seen, bodies);
        }
    }
}
