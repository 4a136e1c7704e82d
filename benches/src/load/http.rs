//! Minimal HTTP/1.1 client of a load generator: one request at a time on a kept connection.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context, Result, bail};

/// Time limit of an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Size limit of the head of an answer.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Head of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Length of the head in bytes.
    pub(crate) bytes: usize,
    /// Length of the body in bytes.
    pub(crate) body_bytes: usize,
}

/// Answer of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Bytes of a request. A body makes it a POST of JSON.
pub(crate) fn request(
    address: SocketAddr,
    path: &str,
    key: Option<&str>,
    body: Option<&str>,
) -> Vec<u8> {
    let method = if body.is_some() { "POST" } else { "GET" };
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\n");
    if let Some(key) = key {
        text += &format!("Authorization: Bearer {key}\r\n");
    }
    if let Some(body) = body {
        text += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    }
    text += "\r\n";
    text += body.unwrap_or_default();
    text.into_bytes()
}

/// Parses the head; `None` while it is incomplete.
pub(crate) fn head(bytes: &[u8]) -> Result<Option<Head>> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        if bytes.len() > MAX_HEAD_BYTES {
            bail!("an answer whose head does not end");
        }
        return Ok(None);
    };
    let text = std::str::from_utf8(&bytes[..end]).context("a head that is not text")?;
    let status = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.with_context(|| format!("no status in `{}`", first_line(text)))?;
    let length = text.lines().skip(1).find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let body_bytes = length.context("an answer that does not say its length")?;
    Ok(Some(Head { status, bytes: end + 4, body_bytes }))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Sends one request on its own connection.
pub(crate) fn ask(address: SocketAddr, request: &[u8]) -> Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(request)?;
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 << 10];
    loop {
        let count = stream.read(&mut chunk)?;
        if count == 0 {
            bail!("the connection ended after {} bytes", bytes.len());
        }
        bytes.extend_from_slice(&chunk[..count]);
        if let Some(answer) = complete(&bytes)? {
            return Ok(answer);
        }
    }
}

fn complete(bytes: &[u8]) -> Result<Option<Answer>> {
    let Some(head) = head(bytes)? else { return Ok(None) };
    let body = bytes.get(head.bytes..head.bytes + head.body_bytes);
    Ok(body.map(|body| Answer {
        status: head.status,
        body: String::from_utf8_lossy(body).into_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_when_it_is_complete() {
        let text = b"HTTP/1.1 429 Too Many\r\nContent-type: x\r\ncontent-LENGTH: 12\r\n\r\nabc";
        let expected = Head { status: 429, bytes: text.len() - 3, body_bytes: 12 };
        assert_eq!(head(text).expect("a head"), Some(expected));
        assert_eq!(head(&text[..40]).expect("half a head"), None);
        assert_eq!(complete(text).expect("half a body"), None);
    }

    #[test]
    fn an_answer_of_unknown_length_is_an_error() {
        assert!(head(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
        assert!(head(b"nonsense\r\n\r\n").is_err());
        assert!(head(&vec![b'x'; MAX_HEAD_BYTES + 1]).is_err());
    }

    #[test]
    fn a_body_makes_it_a_post() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let post = request(address, "/x", Some("k"), Some("{}"));
        let expected = "POST /x HTTP/1.1\r\nHost: 127.0.0.1:80\r\nAuthorization: Bearer k\r\n\
                        Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(String::from_utf8_lossy(&post), expected);
        assert!(request(address, "/x", None, None).starts_with(b"GET /x "));
    }
}
