//! The markers of the cluster, kept up to date.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Instant,
};

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use tracing::warn;

use super::{MARKER_NAME, Marker, Markers, Verdict};
use crate::store::{Pauses, Scope, WATCH_TIMEOUT};

/// Tells which namespaces are taken. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Fence {
    markers: Arc<RwLock<Markers>>,
}

impl Fence {
    /// Whether another install has taken the namespace. Nothing is taken before [`Fence::follow`] has seen the markers.
    #[must_use]
    pub fn is_taken(&self, namespace: &str) -> bool {
        let markers = self.markers.read().unwrap_or_else(PoisonError::into_inner);
        markers.verdict(namespace, Instant::now()) != Verdict::Free
    }

    /// Follows the markers of the cluster, for ever. An install that serves one namespace leaves nothing to others and
    /// follows nothing.
    pub async fn follow(&self, client: Client, scope: &Scope) {
        if *scope != Scope::Cluster {
            return std::future::pending().await;
        }
        let config = watcher::Config::default().fields(&format!("metadata.name={MARKER_NAME}")).timeout(WATCH_TIMEOUT);
        let events = watcher(Api::<Lease>::all(client), config.streaming_lists()).backoff(Pauses::default());
        let mut events = std::pin::pin!(events);
        let mut listed = Vec::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.take_in(event, &mut listed),
                Err(error) => warn!(kind = "Lease", %error, "watch broke; trying again"),
            }
        }
    }

    fn take_in(&self, event: Event<Lease>, listed: &mut Vec<String>) {
        let mut markers = self.markers.write().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let namespace = |lease: &Lease| lease.metadata.namespace.clone().unwrap_or_default();
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(lease) => {
                listed.push(namespace(&lease));
                markers.see(&namespace(&lease), Some(Marker::of(&lease)), now);
            }
            Event::InitDone => markers.keep_only(listed),
            Event::Apply(lease) => markers.see(&namespace(&lease), Some(Marker::of(&lease)), now),
            Event::Delete(lease) => markers.see(&namespace(&lease), None, now),
        }
    }
}
