//! How much memory a JSON text needs once it is a value.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Memory for values that exist at the same time.
const VALUES: usize = 128 << 20;
/// Unit of the budget.
const UNIT: usize = 1 << 10;
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
