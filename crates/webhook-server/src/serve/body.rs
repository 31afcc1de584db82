//! The body of a request, within limits: of its bytes, and of the memory that a JSON text needs once it is a value.

use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::{
    StatusCode,
    body::{Body, Incoming},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    Reply,
    peers::{Limited, PeerConnection, PeerPermits},
};

/// Bodies up to this size need no part of the budget: the number of connections bounds them. So a small request never
/// waits for large ones.
pub(super) const SMALL: usize = 64 << 10;
/// Unit of the budget.
pub(super) const UNIT: usize = 1 << 10;

/// A body, and its part of the budget.
pub(super) struct Received {
    pub(super) bytes: Vec<u8>,
    pub(super) held: Option<PeerPermits>,
}

/// Reads a body of at most `limit` bytes. What is too much is read and thrown away, for clients that listen only once
/// they have said everything.
///
/// # Errors
/// The answer to a body that is too large or breaks off.
pub(super) async fn read(
    mut body: Incoming,
    limit: usize,
    budget: &Limited,
    connection: &PeerConnection,
) -> Result<Received, Reply> {
    // The client went away, or sent something that is not HTTP.
    let broken = || Reply::text(StatusCode::BAD_REQUEST, "the request did not arrive whole");
    let bounds = body.size_hint();
    let bytes = |bound: u64| usize::try_from(bound).unwrap_or(usize::MAX);
    let (announced, most) = (bytes(bounds.lower()), bounds.upper().map_or(limit, bytes));
    let mut received = Received { bytes: Vec::with_capacity(most.min(SMALL)), held: None };
    let mut size = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| broken())?.into_data() else { continue };
        size += data.len();
        if size.max(announced) > limit {
            received = Received { bytes: Vec::new(), held: None };
            continue;
        }
        if size > SMALL && received.held.is_none() {
            // All of it at once: two that wait for the rest of each other's would wait for ever.
            let units = u32::try_from(most.min(limit).div_ceil(UNIT)).unwrap_or(u32::MAX);
            let held = budget.take(connection.peer, units).await;
            received.held = Some(held.ok_or_else(broken)?);
            received.bytes.reserve_exact(most.min(limit) - received.bytes.len());
        }
        received.bytes.extend_from_slice(&data);
    }
    if size > limit {
        let text = format!("the request is larger than {limit} bytes");
        return Err(Reply::text(StatusCode::PAYLOAD_TOO_LARGE, text));
    }
    Ok(received)
}

/// Memory for values that exist at the same time.
const VALUES: usize = 128 << 20;
/// Bytes for each byte of text: strings are copied once, and written again.
const PER_BYTE: usize = 2;
/// Bytes for an object with members: a node of the tree has room for eleven.
const PER_OBJECT: usize = 704;
/// Bytes for a list with items: room for four.
const PER_LIST: usize = 160;
/// Bytes for each further member or item.
const PER_ITEM: usize = 128;

/// The memory for values; all clones are one.
#[derive(Clone)]
pub(super) struct Values(Arc<Semaphore>);

/// The text has more values than fit into the memory that there is for all.
#[derive(Debug, thiserror::Error)]
#[error("too many values: they need {needed} bytes of memory, and the limit is {VALUES}; send a smaller object")]
pub(super) struct TooHeavy {
    needed: usize,
}

impl From<TooHeavy> for Reply {
    fn from(error: TooHeavy) -> Self {
        Self::text(StatusCode::PAYLOAD_TOO_LARGE, error.to_string())
    }
}

impl Default for Values {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(VALUES / UNIT)))
    }
}

impl Values {
    /// Waits until there is room for the values of a text, and holds it.
    ///
    /// # Errors
    /// If there can never be.
    pub(super) async fn room_for(&self, text: &[u8]) -> Result<OwnedSemaphorePermit, TooHeavy> {
        let needed = weight(text);
        if needed > VALUES {
            return Err(TooHeavy { needed });
        }
        let units = u32::try_from(needed.div_ceil(UNIT)).unwrap_or(u32::MAX);
        // It fails on a semaphore that is closed, and this one never is.
        Arc::clone(&self.0).acquire_many_owned(units).await.map_err(|_| TooHeavy { needed })
    }
}

/// An upper bound of the memory for the values of a JSON text.
fn weight(text: &[u8]) -> usize {
    let mut weight = PER_BYTE * text.len();
    let (mut in_string, mut escaped, mut opened) = (false, false, 0);
    for &byte in text {
        if in_string {
            (in_string, escaped) = (escaped || byte != b'"', !escaped && byte == b'\\');
            continue;
        }
        // What is opened and closed at once is empty, and needs nothing.
        if opened > 0 && !matches!(byte, b']' | b'}') && !byte.is_ascii_whitespace() {
            weight += opened;
        }
        if !byte.is_ascii_whitespace() {
            opened = 0;
        }
        match byte {
            b'"' => in_string = true,
            b'{' => opened = PER_OBJECT,
            b'[' => opened = PER_LIST,
            b',' => weight += PER_ITEM,
            _ => {}
        }
    }
    weight
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_weigh_what_they_take_in_memory() {
        for (text, values) in [
            ("", 0),
            ("{}", 0),
            ("[ ]", 0),
            ("[0]", PER_LIST),
            ("[0,1]", PER_LIST + PER_ITEM),
            (r#"{"a":[{}]}"#, PER_OBJECT + PER_LIST),
            (r#"["[,{\"[,","\\",0]"#, PER_LIST + 2 * PER_ITEM),
        ] {
            assert_eq!(weight(text.as_bytes()), values + 2 * text.len(), "{text}");
        }
    }

    #[tokio::test]
    async fn who_needs_more_than_there_is_does_not_wait() {
        let values = Values::default();
        assert!(values.room_for("[0],".repeat(1 << 20).as_bytes()).await.is_err());
        assert!(values.room_for(&vec![b' '; 40 << 20]).await.is_ok());
    }
}
