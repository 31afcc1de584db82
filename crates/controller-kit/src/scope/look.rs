//! One look at all the markers, past every cache.

use std::{collections::HashMap, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt, api::ListParams};
use tokio::time::{sleep, timeout};

use super::{MARKER_LEASE, Marker};

/// How long an answer may take, and how soon the next question follows one without.
const LIMIT: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_secs(1);

/// The markers by namespace, or why they could not be read.
pub(super) type Found = Result<HashMap<String, Marker>, Unanswered>;

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

/// A look that is under way, or none.
#[derive(Default)]
pub(super) struct Look(Option<BoxFuture<'static, Found>>);

impl Look {
    /// Whether none is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.0.is_none()
    }

    /// Begins to look. The right to list the Leases of the one name suffices.
    pub(super) fn begin(&mut self, api: Api<Lease>) {
        self.0 = Some(
            async move {
                let found = markers(&api).await;
                if found.is_err() {
                    sleep(AGAIN).await;
                }
                found
            }
            .boxed(),
        );
    }

    /// What the look has found; never, while none is under way. Nothing is lost when this is dropped.
    pub(super) async fn done(&mut self) -> Found {
        match &mut self.0 {
            Some(look) => {
                let found = look.await;
                self.0 = None;
                found
            }
            None => std::future::pending().await,
        }
    }
}

async fn markers(api: &Api<Lease>) -> Found {
    let named = ListParams::default().fields(&format!("metadata.name={MARKER_LEASE}"));
    let leases = timeout(LIMIT, api.list(&named)).await.map_err(|_| Unanswered::Late)??;
    let marked = |lease: &Lease| Some((lease.namespace()?, Marker::of(lease)?));
    Ok(leases.iter().filter_map(marked).collect())
}
