//! Reads of all markers past every cache, one at a time.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt, api::ListParams};
use tokio::time::timeout;

use super::{MARKER_LEASE, Marker};

/// Time limit of an answer.
const LIMIT: Duration = Duration::from_secs(3);

/// Time between the starts of two reads of which the first failed.
const AGAIN: Duration = Duration::from_secs(2);

/// Limit for who waits for an answer: a read may fail, and another one begins.
pub(super) const ANSWER_LIMIT: Duration = LIMIT.saturating_mul(2);

/// The markers by namespace, or why they could not be read.
pub(super) type MarkerLookup = Result<MarkerAnswer, Unanswered>;

/// Answer of the API server.
#[derive(Debug)]
pub(super) struct MarkerAnswer {
    /// Time of the request: the answer is no older.
    pub(super) started: Instant,
    /// The markers by namespace.
    pub(super) markers: HashMap<String, Marker>,
}

/// The API server did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unanswered {
    /// It took too long.
    #[error("no answer within {} s", LIMIT.as_secs())]
    Late,
    /// It refused, or could not be reached.
    #[error(transparent)]
    Failed(#[from] kube::Error),
}

/// The read that is under way, or none, and when the next one may begin.
pub(super) struct MarkerReads {
    running: Option<BoxFuture<'static, MarkerLookup>>,
    next: Option<Instant>,
    /// Age at which an answer is replaced.
    interval: Duration,
}

impl MarkerReads {
    pub(super) fn new(interval: Duration) -> Self {
        Self { running: None, next: None, interval }
    }

    /// Begins a read if it is time for one. The right to list the Leases of the one name suffices.
    pub(super) fn begin_if_due(&mut self, api: &Api<Lease>, now: Instant) {
        if self.running.is_none() && self.next.is_none_or(|next| now >= next) {
            let api = api.clone();
            self.next = Some(now + AGAIN);
            self.running = Some(async move { markers(&api, now).await }.boxed());
        }
    }

    /// Returns the result of the read; never returns while no read is under way. Nothing is lost when this is dropped.
    pub(super) async fn done(&mut self) -> MarkerLookup {
        match &mut self.running {
            Some(reads) => {
                let found = reads.await;
                self.running = None;
                if let Ok(answer) = &found {
                    self.next = Some(answer.started + self.interval);
                }
                found
            }
            None => std::future::pending().await,
        }
    }
}

async fn markers(api: &Api<Lease>, started: Instant) -> MarkerLookup {
    let named = ListParams::default().fields(&format!("metadata.name={MARKER_LEASE}"));
    let leases = timeout(LIMIT, api.list(&named)).await.map_err(|_| Unanswered::Late)??;
    let marked = |lease: &Lease| Some((lease.namespace()?, Marker::of(lease)?));
    Ok(MarkerAnswer { started, markers: leases.iter().filter_map(marked).collect() })
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use http::{Request, Response, StatusCode};
    use kube::{Client, client::Body};

    use super::*;

    /// An API server without Leases, which can be broken.
    fn api(works: &Arc<AtomicBool>) -> Api<Lease> {
        let works = Arc::clone(works);
        let answer = tower::service_fn(move |_: Request<Body>| {
            let works = works.load(Ordering::SeqCst);
            let status = if works { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
            let list = r#"{"apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList", "metadata": {}, "items": []}"#;
            let response = Response::builder().status(status).body(Body::from(list.as_bytes().to_vec()));
            async move { response }
        });
        Api::all(Client::new(answer, "default"))
    }

    #[tokio::test]
    async fn an_answer_is_replaced_when_it_is_old_and_a_failure_sooner() {
        let works = Arc::new(AtomicBool::new(true));
        let (api, mut reads, start) = (api(&works), MarkerReads::new(Duration::from_secs(5)), Instant::now());
        let begins = |reads: &mut MarkerReads, seconds| {
            reads.begin_if_due(&api, start + Duration::from_secs(seconds));
            reads.running.is_some()
        };
        assert!(begins(&mut reads, 0), "nothing is known");
        assert!(reads.done().await.unwrap().markers.is_empty());
        assert!(!begins(&mut reads, 4), "it is young");
        works.store(false, Ordering::SeqCst);
        assert!(begins(&mut reads, 5));
        assert!(reads.done().await.is_err());
        assert!(!begins(&mut reads, 6), "a pause lies between two tries");
        assert!(begins(&mut reads, 7));
    }
}
