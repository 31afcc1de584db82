//! `/convert`. It needs the request and nothing else: no cache, no discovery, no API server. Whatever the rest of the
//! process is busy with or has lost, objects can be read.

use std::panic::catch_unwind;
use std::time::Instant;

use api_types::conversion::review;
use hyper::StatusCode;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;
use tracing::{error, warn};

use super::{Reply, RequestMetrics};

/// Larger requests are worked on beside the threads that answer everybody else.
const LARGE: usize = 64 << 10;

/// Answers. The slot is given back when the work is done, even if nobody waits for it any more.
pub(super) async fn convert(body: Vec<u8>, slot: OwnedSemaphorePermit, metrics: &RequestMetrics) -> Reply {
    let (begin, is_large) = (Instant::now(), body.len() >= LARGE);
    let work = move || {
        let outcome = answer(&body);
        drop(slot);
        outcome
    };
    let outcome = if is_large { spawn_blocking(work).await.unwrap_or_else(|_| failed()) } else { work() };
    metrics.converted(outcome.objects, begin.elapsed());
    outcome.reply
}

struct Outcome {
    reply: Reply,
    /// How many objects were converted, unless the conversion failed.
    objects: Option<usize>,
}

fn answer(body: &[u8]) -> Outcome {
    catch_unwind(|| converted(body)).unwrap_or_else(|_| failed())
}

fn converted(body: &[u8]) -> Outcome {
    let refused = |text: String| Outcome { reply: Reply::text(StatusCode::BAD_REQUEST, text), objects: None };
    let review: Value = match serde_json::from_slice(body) {
        Ok(review) => review,
        Err(error) => return refused(format!("not a ConversionReview: {error}")),
    };
    match review::answer(review) {
        Ok(answer) => {
            let result = &answer["response"]["result"];
            let objects = answer["response"]["convertedObjects"].as_array().map(Vec::len);
            if objects.is_none() {
                warn!(message = result["message"].as_str(), "a conversion failed");
            }
            Outcome { reply: Reply::json(serde_json::to_vec(&answer).unwrap_or_default()), objects }
        }
        Err(error) => refused(error.to_string()),
    }
}

fn failed() -> Outcome {
    error!("a conversion panicked; the request fails");
    let text = "the conversion failed; the log of the webhook server says where. This is a mistake in the server";
    Outcome { reply: Reply::text(StatusCode::INTERNAL_SERVER_ERROR, text), objects: None }
}
