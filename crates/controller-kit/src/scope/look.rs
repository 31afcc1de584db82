//! Reads all markers past every cache, at intervals; and what the fence answers from them.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt, api::ListParams};
use tokio::time::timeout;

use super::{MARKER_LEASE, Marker};
use crate::places::{Places, place};

/// How long an answer may take, and the time between the beginnings of two looks. Within [`MAX_AGE`](super::MAX_AGE),
/// several looks may fail.
const LIMIT: Duration = Duration::from_secs(3);
const EVERY: Duration = Duration::from_secs(2);

/// The markers by namespace, or why they could not be read.
pub(super) type Found = Result<Answer, Unanswered>;

/// What the API server answered.
#[derive(Debug)]
pub(super) struct Answer {
    /// When it was asked: the answer is no older.
    pub(super) started: Instant,
    /// The markers by namespace.
    pub(super) markers: HashMap<String, Marker>,
}

/// The API server did not tell.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unanswered {
    /// It took too long.
    #[error("no answer within {} s", LIMIT.as_secs())]
    Late,
    /// It refused, or could not be reached.
    #[error(transparent)]
    Failed(#[from] kube::Error),
}

/// A look that is under way, or none, and when the last one began.
#[derive(Default)]
pub(super) struct Look {
    running: Option<BoxFuture<'static, Found>>,
    began: Option<Instant>,
}

impl Look {
    /// Begins a look if it is time for one. The right to list the Leases of the one name suffices.
    pub(super) fn begin_if_due(&mut self, api: &Api<Lease>, now: Instant) {
        if self.running.is_none() && self.began.is_none_or(|began| now.duration_since(began) >= EVERY) {
            let api = api.clone();
            self.began = Some(now);
            self.running = Some(async move { markers(&api, now).await }.boxed());
        }
    }

    /// What the look has found; never, while none is under way. Nothing is lost when this is dropped.
    pub(super) async fn done(&mut self) -> Found {
        match &mut self.running {
            Some(look) => {
                let found = look.await;
                self.running = None;
                found
            }
            None => std::future::pending().await,
        }
    }
}

async fn markers(api: &Api<Lease>, started: Instant) -> Found {
    let named = ListParams::default().fields(&format!("metadata.name={MARKER_LEASE}"));
    let leases = timeout(LIMIT, api.list(&named)).await.map_err(|_| Unanswered::Late)??;
    let marked = |lease: &Lease| Some((lease.namespace()?, Marker::of(lease)?));
    Ok(Answer { started, markers: leases.iter().filter_map(marked).collect() })
}

/// Another operator acts in the namespace, or none yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Excluded {
    /// A namespace-restricted operator has marked it.
    #[error("namespace {namespace} belongs to {holder}, which holds the Lease {MARKER_LEASE} there")]
    Marked {
        /// The namespace.
        namespace: String,
        /// As the marker says.
        holder: String,
    },
    /// We are the restricted operator, and our marker is not there, not ours, or too old.
    #[error(
        "this install does not hold the Lease {MARKER_LEASE} in namespace {namespace}; lease-scope takes it when all of the install is up"
    )]
    NotHeld {
        /// The namespace.
        namespace: String,
    },
    /// The markers are not known yet, or not any more: the API server has not answered for a while, or the process did
    /// not run.
    #[error("the Leases {MARKER_LEASE} are not known at present")]
    Unknown,
    /// The process has not renewed its leader election Lease in time: another replica may act.
    #[error("the leader election Lease was not renewed in time; another replica may act")]
    NotLeading,
    /// Another replica acts in the namespace, or will.
    #[error("namespace {namespace} is in the shard of another replica")]
    Elsewhere {
        /// The namespace.
        namespace: String,
    },
}

/// Where this process may act again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// In this namespace.
    Namespace(String),
    /// In the namespaces at these places.
    Places(Places),
    /// Too many releases to list: reconcile everything.
    Anywhere,
}

impl Released {
    /// Whether a namespace is among them.
    #[must_use]
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::Namespace(released) => released == namespace,
            Self::Places(places) => places.contains(place(namespace)),
            Self::Anywhere => true,
        }
    }
}
