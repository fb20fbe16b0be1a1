//! A connection that reads whole messages and buffers those to send.

use std::time::Duration;

use pushdowndb_contract::{Error, ErrorKind, Result as OwnResult};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Bytes per read.
const READ_BYTES: usize = 16 * 1024;

/// Maximum bytes that are buffered of a client that sends while its query runs.
const READ_AHEAD_BYTES: usize = 64 * 1024;

/// A socket, with TLS or without.
pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

/// Why a connection has ended.
#[derive(Debug)]
pub(super) enum Lost {
    /// The client disconnected, or has stopped reading.
    Gone,
    /// The client violated the protocol.
    Protocol(Error),
}

/// A connection.
pub(super) struct Wire {
    socket: Box<dyn Socket>,
    input: Vec<u8>,
    /// Messages that are not sent yet.
    pub out: Vec<u8>,
    /// Maximum bytes of a message.
    limit: usize,
    /// Maximum time that a client may take to read a part of what is sent.
    stall: Duration,
}

impl Wire {
    /// Creates a connection whose incoming messages have at most `limit` bytes.
    pub fn new(socket: Box<dyn Socket>, limit: usize, stall: Duration) -> Self {
        Self { socket, input: Vec::new(), out: Vec::new(), limit, stall }
    }

    /// Changes the maximum size of a message.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Returns the socket. Bytes that were received but not read are an error.
    pub fn into_socket(self) -> OwnResult<Box<dyn Socket>> {
        match self.input.is_empty() {
            true => Ok(self.socket),
            // The bytes would be treated as a part of the encrypted data.
            false => Err(Error::invalid("the client sent plain text behind its request for TLS")),
        }
    }

    async fn fill(&mut self) -> Result<(), Lost> {
        self.input.reserve(READ_BYTES);
        match self.socket.read_buf(&mut self.input).await {
            Ok(0) | Err(_) => Err(Lost::Gone),
            Ok(_) => Ok(()),
        }
    }

    /// Waits for the length field at `at` and returns it. The length includes the field itself.
    async fn length(&mut self, at: usize, least: usize, most: usize) -> Result<usize, Lost> {
        loop {
            if let Some(bytes) = self.input.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
                let length = u32::from_be_bytes(*bytes) as usize;
                if (least..=most).contains(&length) {
                    return Ok(length);
                }
                let message = format!("a message of {length} bytes, where {least} to {most} are possible");
                return Err(Lost::Protocol(Error::new(ErrorKind::Limit, message)));
            }
            self.fill().await?;
        }
    }

    async fn take(&mut self, skip: usize, length: usize) -> Result<Vec<u8>, Lost> {
        while self.input.len() < length {
            self.fill().await?;
        }
        let rest = self.input.split_off(length);
        let mut taken = std::mem::replace(&mut self.input, rest);
        taken.drain(..skip);
        Ok(taken)
    }

    /// Reads the startup packet, without its length.
    pub async fn startup(&mut self, most: usize) -> Result<Vec<u8>, Lost> {
        let length = self.length(0, 8, most).await?;
        self.take(4, length).await
    }

    /// Reads the next message: its type and its fields.
    pub async fn message(&mut self) -> Result<(u8, Vec<u8>), Lost> {
        let length = self.length(1, 4, self.limit).await?;
        let tag = self.input.first().copied().unwrap_or_default();
        Ok((tag, self.take(5, length + 1).await?))
    }

    /// Waits until the client disconnects. Bytes that it sends meanwhile are buffered, up to a
    /// limit.
    pub async fn gone(&mut self) {
        while self.input.len() < READ_AHEAD_BYTES {
            if self.fill().await.is_err() {
                return;
            }
        }
        std::future::pending().await
    }

    /// Sends the buffered messages.
    pub async fn flush(&mut self) -> Result<(), Lost> {
        let out = std::mem::take(&mut self.out);
        let mut rest = out.as_slice();
        while !rest.is_empty() {
            // The time limit is for one write, so that a slow client is served as long as it reads.
            let written = tokio::time::timeout(self.stall, self.socket.write(rest)).await;
            match written {
                Ok(Ok(count @ 1..)) => rest = rest.get(count..).unwrap_or_default(),
                _ => return Err(Lost::Gone),
            }
        }
        let flushed = tokio::time::timeout(self.stall, self.socket.flush()).await;
        self.out = out;
        self.out.clear();
        // A large value is no reason to keep the buffer large.
        self.out.shrink_to(4 * READ_AHEAD_BYTES);
        if let Ok(Ok(())) = flushed { Ok(()) } else { Err(Lost::Gone) }
    }

    /// Sends the buffered messages and closes the connection.
    pub async fn close(mut self) {
        let _ = self.flush().await;
        drop(tokio::time::timeout(Duration::from_secs(1), self.socket.shutdown()).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(limit: usize) -> (Wire, tokio::io::DuplexStream) {
        let (client, server) = tokio::io::duplex(1024);
        (Wire::new(Box::new(server), limit, Duration::from_millis(50)), client)
    }

    #[tokio::test]
    async fn messages_are_cut_and_their_lengths_not_believed() {
        let (mut server, mut client) = wire(100);
        client.write_all(b"Q\0\0\0\x06a\0S\0\0\0\x04Q\x7f\xff\xff\xff").await.unwrap();
        assert_eq!(server.message().await.unwrap(), (b'Q', b"a\0".to_vec()));
        assert_eq!(server.message().await.unwrap(), (b'S', vec![]));
        assert!(matches!(server.message().await, Err(Lost::Protocol(_))), "a message of 2 GiB");
        let (mut server, mut client) = wire(100);
        client.write_all(b"Q\0\0\0\x03").await.unwrap();
        assert!(matches!(server.message().await, Err(Lost::Protocol(_))), "shorter than its length");
        let (mut server, client) = wire(100);
        drop(client);
        assert!(matches!(server.message().await, Err(Lost::Gone)));
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_is_lost() {
        let (mut server, client) = wire(100);
        server.out = vec![0; 1 << 20];
        assert!(matches!(server.flush().await, Err(Lost::Gone)));
        drop(client);
    }

    #[tokio::test]
    async fn plain_text_before_the_handshake_is_refused() {
        let (mut server, mut client) = wire(100);
        client.write_all(b"\0\0\0\x08\x04\xd2\x16\x2fQ").await.unwrap();
        server.startup(1000).await.unwrap();
        assert!(server.into_socket().is_err());
    }
}
