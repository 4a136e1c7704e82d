//! Reader of server-sent events: the `data` of each event, whole, however the bytes were cut.

use crate::Error;

/// Bytes of one event; a chunk of a model is far below.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// Bytes of a stream that were not read as events yet.
#[derive(Debug, Default)]
pub(crate) struct EventReader {
    rest: Vec<u8>,
    data: String,
    has_data: bool,
}

impl EventReader {
    /// Takes bytes and gives the data of every event that is complete now.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<Vec<String>, Error> {
        self.rest.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            events.extend(self.line(line.trim_end_matches(['\n', '\r'])));
        }
        match self.rest.len() + self.data.len() > MAX_EVENT_BYTES {
            true => Err(Error::Garbage("an event larger than 4 MiB".to_owned())),
            false => Ok(events),
        }
    }

    /// The last event, if the stream ended without an empty line.
    pub(crate) fn finish(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.rest);
        let line = String::from_utf8_lossy(&rest).into_owned();
        let event = self.line(line.trim_end_matches('\r'));
        event.or_else(|| self.line(""))
    }

    fn line(&mut self, line: &str) -> Option<String> {
        if line.is_empty() {
            return std::mem::take(&mut self.has_data).then(|| std::mem::take(&mut self.data));
        }
        let value = line.strip_prefix("data:")?;
        if std::mem::replace(&mut self.has_data, true) {
            self.data.push('\n');
        }
        self.data.push_str(value.strip_prefix(' ').unwrap_or(value));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_whole_however_the_bytes_are_cut() {
        let text = "retry: 1\n: comment\ndata: {\"a\":1}\r\n\r\nevent: x\ndata:two\ndata: lines\n\ndata: é";
        let wanted = ["{\"a\":1}", "two\nlines"];
        for size in 1..text.len() {
            let mut reader = EventReader::default();
            let mut events = Vec::new();
            for part in text.as_bytes().chunks(size) {
                events.extend(reader.read(part).expect("small"));
            }
            assert_eq!(events, wanted, "parts of {size}");
            assert_eq!(reader.finish().as_deref(), Some("é"));
        }
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut reader = EventReader::default();
        let part = vec![b'x'; 1 << 20];
        let refused = (0..8).any(|_| reader.read(&part).is_err());
        assert!(refused);
    }
}
