//! `/convert`. It needs the request and nothing else: no cache, no discovery, no API server. Whatever the rest of the
//! process is busy with or has lost, objects can be read.

use std::{
    io::{self, BufWriter, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use api_types::conversion::review::{Review, ReviewOutcome};
use hyper::{StatusCode, body::Bytes};
use tokio::{runtime::Handle, sync::mpsc, task::spawn_blocking, time::timeout};
use tracing::{error, warn};

use super::{
    Chunk, Reply, RequestMetrics,
    body::{Received, SMALL, Values},
    peers::{PeerConnection, PeerLimits},
    stopping,
};

/// The answer is sent in parts of about this size.
const PART: usize = 64 << 10;
/// The longest that a client may take for a part.
const STALL: Duration = Duration::from_secs(5);

/// Answers. A large review is answered beside the threads that serve other clients, object by object, while the client
/// reads.
pub(super) async fn convert(
    body: Received,
    limits: &PeerLimits,
    connection: &PeerConnection,
    values: Values,
    metrics: RequestMetrics,
) -> Result<Reply, Reply> {
    if body.bytes.len() <= SMALL {
        let _room = values.room_for(&body.bytes).await?;
        connection.works();
        return Ok(answer_at_once(&body.bytes, &metrics));
    }
    let slot = limits.conversions.take(connection.peer, 1).await.ok_or_else(stopping)?;
    connection.works();
    let (sender, mut chunks) = mpsc::channel(1);
    spawn_blocking(move || {
        stream(&body.bytes, BufWriter::with_capacity(PART, ReviewParts(sender)), &values, &metrics);
        drop((body, slot));
    });
    // A review that cannot be answered has no part but the reason.
    match chunks.recv().await {
        Some(Ok(first)) => Ok(Reply::stream(first, chunks)),
        Some(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
            Err(Reply::text(StatusCode::BAD_REQUEST, error.to_string()))
        }
        Some(Err(_)) | None => Err(failed()),
    }
}

/// The answer to a review of a few kilobytes.
fn answer_at_once(body: &[u8], metrics: &RequestMetrics) -> Reply {
    let mut out = Vec::with_capacity(2 * body.len());
    let answered = counted(metrics, || {
        let review = Review::read(body).map_err(|error| error.to_string())?;
        review.answer(&mut out, |_| Ok(())).map_err(|error| error.to_string())
    });
    match answered {
        Ok(()) => Reply::json(out),
        Err(Some(error)) => Reply::text(StatusCode::BAD_REQUEST, error),
        Err(None) => failed(),
    }
}

/// Answers a review part by part.
fn stream(body: &[u8], mut out: BufWriter<ReviewParts>, values: &Values, metrics: &RequestMetrics) {
    let room = |object: &str| {
        Handle::current().block_on(values.room_for(object.as_bytes())).map_err(|error| error.to_string())
    };
    let answered = counted(metrics, || {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let outcome = Review::read(body).map_err(invalid)?.answer(&mut out, room)?;
        out.flush()?;
        Ok(outcome)
    });
    if let Err(error) = answered {
        // The rest of the buffer is not sent.
        let (parts, _) = out.into_parts();
        // The client has closed the connection.
        let _ = parts.send(Err(error.unwrap_or_else(|| io::ErrorKind::Other.into())));
    }
}

/// Answers a review, and counts it.
///
/// # Errors
/// The reason why there is no answer; `None` if the conversion panicked.
fn counted<E>(metrics: &RequestMetrics, answer: impl FnOnce() -> Result<ReviewOutcome, E>) -> Result<(), Option<E>> {
    let begin = Instant::now();
    let (objects, answered) = match catch_unwind(AssertUnwindSafe(answer)) {
        Ok(Ok(ReviewOutcome::Converted(objects))) => (Some(objects), Ok(())),
        Ok(Ok(ReviewOutcome::Failed(message))) => {
            warn!(message, "a conversion failed");
            (None, Ok(()))
        }
        Ok(Err(error)) => (None, Err(Some(error))),
        Err(_) => {
            error!("a conversion panicked; the request fails");
            (None, Err(None))
        }
    };
    metrics.converted(objects, begin.elapsed());
    answered
}

fn failed() -> Reply {
    let text = "the conversion failed; the log of the webhook server says where. This is a defect of the server";
    Reply::text(StatusCode::INTERNAL_SERVER_ERROR, text)
}

/// Sends what is written to it, at most [`PART`] at a time.
struct ReviewParts(mpsc::Sender<Chunk>);

impl ReviewParts {
    fn send(&self, chunk: Chunk) -> io::Result<()> {
        let sent = Handle::current().block_on(timeout(STALL, self.0.send(chunk)));
        sent.map_err(|_| io::ErrorKind::TimedOut)?.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for ReviewParts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = &bytes[..bytes.len().min(PART)];
        self.send(Ok(Bytes::copy_from_slice(part))).map(|()| part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
