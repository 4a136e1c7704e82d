//! Channel to a driver: frames of JSON in both directions.
//!
//! The driver shares its process with the user's code, so its messages are only trusted as far as
//! that code's own output.

use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

/// Longest frame of a driver that runs one program; longer ones are not from our driver.
const MAX_EVENT_BYTES: usize = 1 << 20;

/// Channel to a connected driver.
#[derive(Debug)]
pub(crate) struct JobChannel {
    stream: UnixStream,
    buffer: Vec<u8>,
}

/// Messages of a driver that runs one program.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "ev", rename_all = "snake_case")]
pub(crate) enum DriverEvent {
    /// The driver waits for its job.
    Ready,
    /// The program ended and its output is flushed.
    Done {
        exit: i32,
        #[serde(default)]
        error: Option<DriverError>,
    },
    /// A message of a newer driver, ignored.
    #[serde(other)]
    Other,
}

/// The error that ended an interpreted program.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct DriverError {
    #[serde(rename = "type", default)]
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) errno: Option<i32>,
}

impl JobChannel {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// Sends one frame, made by [`crate::launch::frame`].
    pub(crate) async fn send(&mut self, frame: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(frame).await
    }

    /// Body of the next frame; `None` at the end or on an invalid length. Cancel safe.
    pub(crate) async fn frame(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(frame) = take_frame(&mut self.buffer, MAX_EVENT_BYTES)? {
                return Some(frame);
            }
            if self.stream.read_buf(&mut self.buffer).await.ok()? == 0 {
                return None;
            }
        }
    }

    /// Next message; `None` if it is not understood or the channel has ended.
    pub(crate) async fn event(&mut self) -> Option<DriverEvent> {
        serde_json::from_slice(&self.frame().await?).ok()
    }
}

/// Takes a frame from the buffer: `None` for an invalid length, `Some(None)` while it is
/// incomplete.
#[expect(clippy::option_option, reason = "the two layers mean invalid and incomplete")]
fn take_frame(buffer: &mut Vec<u8>, max: usize) -> Option<Option<Vec<u8>>> {
    let Some(head) = buffer.first_chunk::<4>() else { return Some(None) };
    let length = u32::from_le_bytes(*head) as usize;
    if length > max {
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
            while let Some(Some(_)) = take_frame(&mut bytes, MAX_EVENT_BYTES) {}
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
                while let Some(Some(frame)) = take_frame(&mut buffer, MAX_EVENT_BYTES) {
                    seen.push(frame);
                }
            }
            prop_assert_eq!(seen, bodies);
        }
    }
}
