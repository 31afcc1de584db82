//! The body of a request, within limits.

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::StatusCode;
use hyper::body::{Body, Bytes, Incoming};

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

/// Reads a body of at most `limit` bytes. One that says that it is longer is not read at all.
pub(super) async fn read(body: Incoming, limit: usize) -> Result<Bytes, BodyError> {
    let announced = body.size_hint().lower();
    if usize::try_from(announced).map_or(true, |announced| announced > limit) {
        return Err(BodyError::TooLarge { limit });
    }
    match Limited::new(body, limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge { limit }),
        Err(_) => Err(BodyError::Broken),
    }
}
