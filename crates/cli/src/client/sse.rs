//! Server-sent events, as far as our servers use them.

use reqwest::Response;

use super::Client;
use crate::failure::Failure;

/// Maximum bytes of an event.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// One event.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) data: String,
}

/// Events as they come.
#[derive(Debug)]
pub(crate) struct Events<'a> {
    client: &'a Client,
    response: Response,
    reader: Reader,
}

impl<'a> Events<'a> {
    pub(crate) fn new(client: &'a Client, response: Response) -> Self {
        Self { client, response, reader: Reader::default() }
    }

    /// The next event; `None` when the server ended the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            if let Some(event) = self.reader.next() {
                return Ok(Some(event));
            }
            if self.reader.bytes.len() > MAX_EVENT_BYTES {
                return Err(Failure::new("the server sends an event without end"));
            }
            let chunk = self.response.chunk().await;
            match chunk.map_err(|error| self.client.broken(&error))? {
                Some(bytes) => self.reader.bytes.extend_from_slice(&bytes),
                None => return Ok(None),
            }
        }
    }
}

/// Received bytes that are not parsed yet.
#[derive(Debug, Default)]
struct Reader {
    bytes: Vec<u8>,
}

impl Reader {
    /// The next complete event; comments alone do not count.
    fn next(&mut self) -> Option<Event> {
        loop {
            let end = self.bytes.windows(2).position(|pair| pair == b"\n\n")?;
            let block: Vec<u8> = self.bytes.drain(..end + 2).collect();
            let event = event(&String::from_utf8_lossy(&block));
            if event != Event::default() {
                return Some(event);
            }
        }
    }
}

fn event(block: &str) -> Event {
    let mut event = Event::default();
    for line in block.lines() {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" => value.clone_into(&mut event.id),
            "event" => value.clone_into(&mut event.kind),
            "data" if event.data.is_empty() => value.clone_into(&mut event.data),
            "data" => event.data = format!("{}\n{value}", event.data),
            // Comments are heartbeats; `retry` does not matter without reconnects.
            _ => {}
        }
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_however_they_are_cut() {
        let text = b"retry: 2000\n: hello\n\nid: 1-0\nevent: call.accepted\ndata: {\"a\":1}\n\n\
                     : still here\n\nid: 2-0\ndata: x\ndata: y\n\n";
        let mut reader = Reader::default();
        let mut seen = Vec::new();
        for byte in text {
            reader.bytes.push(*byte);
            seen.extend(reader.next());
        }
        let first = ("1-0", "call.accepted", "{\"a\":1}");
        let read: Vec<_> =
            seen.iter().map(|e| (e.id.as_str(), e.kind.as_str(), e.data.as_str())).collect();
        assert_eq!(read, [first, ("2-0", "", "x\ny")]);
        assert!(reader.bytes.is_empty());
    }
}
