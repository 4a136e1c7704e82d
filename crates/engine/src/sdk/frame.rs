//! Frames on the socket: four bytes of length, little-endian, then that many bytes of JSON.

use std::time::Duration;

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

/// Bytes of one request. Larger things are files and artifacts.
pub(super) const MAX_FRAME: usize = 4 << 20;

/// Time for the body of a request, and for reading an answer.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(30);

/// Length of the next frame; `None` at the end of the connection.
pub(super) async fn read_length(reader: &mut (impl AsyncRead + Unpin)) -> Option<usize> {
    let mut length = [0; 4];
    reader.read_exact(&mut length).await.ok()?;
    usize::try_from(u32::from_le_bytes(length)).ok()
}

/// Body of a frame; `None` if it does not come in full and in time. Memory grows with the bytes that came,
/// not with the length that was announced.
pub(super) async fn read_body(
    reader: &mut (impl AsyncRead + Unpin),
    length: usize,
) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    let reading = async {
        let mut part = reader.take(length as u64);
        part.read_to_end(&mut body).await
    };
    timeout(TRANSFER_TIMEOUT, reading).await.ok()?.ok()?;
    (body.len() == length).then_some(body)
}

/// Writes a frame; false if it was not taken in time.
pub(super) async fn write(writer: &mut (impl AsyncWrite + Unpin), body: &[u8]) -> bool {
    let Ok(length) = u32::try_from(body.len()) else { return false };
    let writing = async {
        writer.write_all(&length.to_le_bytes()).await?;
        writer.write_all(body).await
    };
    timeout(TRANSFER_TIMEOUT, writing).await.is_ok_and(|written| written.is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_frame_comes_back_as_it_was_written() {
        let mut wire = Vec::new();
        assert!(write(&mut wire, b"{}").await);
        let mut reader = &wire[..];
        assert_eq!(read_length(&mut reader).await, Some(2));
        assert_eq!(read_body(&mut reader, 2).await.as_deref(), Some(&b"{}"[..]));
        assert_eq!(read_length(&mut reader).await, None);
    }

    #[tokio::test]
    async fn half_a_frame_is_none() {
        assert_eq!(read_length(&mut &b"\x01\x00"[..]).await, None);
        assert_eq!(read_body(&mut &b"abc"[..], 4).await, None);
    }
}
