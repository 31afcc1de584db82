//! The pieces of an answer as a reader of a blocking thread.

use std::io::{Read, Result};

use bytes::Bytes;
use tokio::sync::mpsc::Receiver;

/// Reads pieces as they arrive. The end of the sender is the end of the text.
pub struct Pieces {
    receiver: Receiver<Bytes>,
    rest: Bytes,
}

impl Pieces {
    /// Reads what arrives here.
    pub fn new(receiver: Receiver<Bytes>) -> Self {
        Self { receiver, rest: Bytes::new() }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        while self.rest.is_empty() {
            match self.receiver.blocking_recv() {
                Some(piece) => self.rest = piece,
                None => return Ok(0),
            }
        }
        let piece = self.rest.split_to(self.rest.len().min(buffer.len()));
        buffer[..piece.len()].copy_from_slice(&piece);
        Ok(piece.len())
    }
}
