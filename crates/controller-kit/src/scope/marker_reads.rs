//! Reads of all markers past every cache, at intervals.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt, api::ListParams};
use tokio::time::timeout;

use super::{MARKER_LEASE, Marker};

/// Time limit of an answer, and time between the starts of two reads. Within [`MAX_AGE`](super::MAX_AGE), several reads
/// may fail.
const LIMIT: Duration = Duration::from_secs(3);
const EVERY: Duration = Duration::from_secs(2);

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

/// The read that is under way, or none, and when the last one began.
#[derive(Default)]
pub(super) struct MarkerReads {
    running: Option<BoxFuture<'static, MarkerLookup>>,
    began: Option<Instant>,
}

impl MarkerReads {
    /// Begins a read if it is time for one. The right to list the Leases of the one name suffices.
    pub(super) fn begin_if_due(&mut self, api: &Api<Lease>, now: Instant) {
        if self.running.is_none() && self.began.is_none_or(|began| now.duration_since(began) >= EVERY) {
            let api = api.clone();
            self.began = Some(now);
            self.running = Some(async move { markers(&api, now).await }.boxed());
        }
    }

    /// Returns the result of the read; never returns while no read is under way. Nothing is lost when this is dropped.
    pub(super) async fn done(&mut self) -> MarkerLookup {
        match &mut self.running {
            Some(reads) => {
                let found = reads.await;
                self.running = None;
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
