//! The body of a request, within limits.

use http_body_util::BodyExt;
use hyper::{
    StatusCode,
    body::{Body, Incoming},
};

use super::peers::{Connection, Held, Limited};

/// Bodies up to this size need no part of the budget: the number of connections bounds them. So a small request never
/// waits for large ones.
pub(super) const SMALL: usize = 64 << 10;
/// Unit of the budget.
pub(super) const UNIT: usize = 1 << 10;

/// Why a body was not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    /// It is too large.
    #[error("the request is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The client went away, or sent something that is not HTTP.
    #[error("the request did not arrive whole")]
    Broken,
}

impl BodyError {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Broken => StatusCode::BAD_REQUEST,
        }
    }
}

/// A body, and its part of the budget.
pub(super) struct Received {
    pub(super) bytes: Vec<u8>,
    pub(super) held: Option<Held>,
}

/// Reads a body of at most `limit` bytes. What is too much is read and thrown away, for clients that listen only once
/// they have said everything.
pub(super) async fn read(
    mut body: Incoming,
    limit: usize,
    budget: &Limited,
    connection: &Connection,
) -> Result<Received, BodyError> {
    let bounds = body.size_hint();
    let bytes = |bound: u64| usize::try_from(bound).unwrap_or(usize::MAX);
    let (announced, most) = (bytes(bounds.lower()), bounds.upper().map_or(limit, bytes));
    let mut received = Received { bytes: Vec::with_capacity(most.min(SMALL)), held: None };
    let mut size = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        size += data.len();
        if size.max(announced) > limit {
            received = Received { bytes: Vec::new(), held: None };
            continue;
        }
        if size > SMALL && received.held.is_none() {
            // All of it at once: two that wait for the rest of each other's would wait for ever.
            let units = u32::try_from(most.min(limit).div_ceil(UNIT)).unwrap_or(u32::MAX);
            let held = budget.take(&connection.shares.bodies, units).await;
            received.held = Some(held.ok_or(BodyError::Broken)?);
            received.bytes.reserve_exact(most.min(limit) - received.bytes.len());
        }
        received.bytes.extend_from_slice(&data);
    }
    if size > limit { Err(BodyError::TooLarge { limit }) } else { Ok(received) }
}
