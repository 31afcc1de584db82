//! The body of a request, within limits.

use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body, Incoming};

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

/// Reads a body of at most `limit` bytes. What is too much is read and thrown away, for clients that listen only once they
/// have said everything.
pub(super) async fn read(mut body: Incoming, limit: usize) -> Result<Vec<u8>, BodyError> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut bytes = Vec::with_capacity(if announced > limit { 0 } else { announced });
    let mut size = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        size += data.len();
        if size.max(announced) <= limit {
            bytes.extend_from_slice(&data);
        } else {
            bytes.clear();
        }
    }
    if size > limit { Err(BodyError::TooLarge { limit }) } else { Ok(bytes) }
}
