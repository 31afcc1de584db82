//! What is answered, and how it goes out.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use hyper::{
    Response, StatusCode,
    body::{Body, Bytes, Frame, SizeHint},
    header::{CONNECTION, CONTENT_TYPE, HeaderValue},
};
use tokio::sync::mpsc;

use super::peers::Connection;

/// A part of an answer, or why the rest does not come.
pub(super) type Chunk = io::Result<Bytes>;

/// An answer, before it is HTTP.
pub(super) struct Reply {
    status: StatusCode,
    content_type: &'static str,
    content: Content,
}

enum Content {
    Whole(Bytes),
    Stream(Chunks),
}

/// An answer that is still being written.
pub(super) struct Chunks {
    pub(super) first: Option<Bytes>,
    pub(super) rest: mpsc::Receiver<Chunk>,
}

impl Reply {
    pub(super) fn json(body: Vec<u8>) -> Self {
        Self { status: StatusCode::OK, content_type: JSON, content: Content::Whole(body.into()) }
    }

    pub(super) fn stream(chunks: Chunks) -> Self {
        Self { status: StatusCode::OK, content_type: JSON, content: Content::Stream(chunks) }
    }

    pub(super) fn text(status: StatusCode, text: impl Into<String>) -> Self {
        let content = Content::Whole(text.into().into_bytes().into());
        Self { status, content_type: "text/plain; charset=utf-8", content }
    }

    /// The response on a connection; `closes`: the client is asked for a new connection with its next request.
    pub(super) fn response(self, connection: Arc<Connection>, closes: bool) -> Response<ReplyBody> {
        let mut response = Response::new(ReplyBody { content: self.content, connection });
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        if closes {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

const JSON: &str = "application/json";

/// The body of a response. Once it has gone out, its connection is idle.
pub(super) struct ReplyBody {
    content: Content,
    connection: Arc<Connection>,
}

impl Drop for ReplyBody {
    fn drop(&mut self) {
        self.connection.idles();
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let chunk = match &mut self.content {
            Content::Whole(bytes) if bytes.is_empty() => None,
            Content::Whole(bytes) => Some(Ok(std::mem::take(bytes))),
            Content::Stream(chunks) => match chunks.first.take() {
                Some(first) => Some(Ok(first)),
                None => std::task::ready!(chunks.rest.poll_recv(context)),
            },
        };
        Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.content, Content::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Stream(_) => SizeHint::default(),
        }
    }
}
