//! Waits until nothing moves any more. Every kind that an operator may write is watched; quiet is when no event came
//! for a while.

use std::time::Duration;

use futures::StreamExt;
use kube::{
    api::{Api, DynamicObject, PartialObjectMeta},
    runtime::{WatchStreamExt, watcher},
};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};

use super::{record::is_recorded, server::Server};

/// No graph takes longer to settle.
const LIMIT: Duration = Duration::from_secs(180);

/// Knows when something was last changed.
pub(super) struct Movement {
    last: watch::Receiver<Instant>,
    settle: Duration,
    _watches: JoinSet<()>,
}

impl Movement {
    /// Watches everything that ends up in a record. `settle` is how long a pause must be to be taken for the end.
    pub(super) fn watch(server: &Server, settle: Duration) -> Self {
        let (sender, last) = watch::channel(Instant::now());
        let mut watches = JoinSet::new();
        for resource in server.resources().iter().filter(|resource| is_recorded(resource)) {
            let api: Api<PartialObjectMeta<DynamicObject>> =
                Api::all_with(server.client.clone(), &resource.api_resource());
            let sender = sender.clone();
            watches.spawn(async move {
                let events = watcher::watcher(api, watcher::Config::default()).default_backoff();
                let mut events = std::pin::pin!(events);
                while let Some(event) = events.next().await {
                    if matches!(event, Ok(watcher::Event::Apply(_) | watcher::Event::Delete(_))) {
                        sender.send_replace(Instant::now());
                    }
                }
            });
        }
        Self { last, settle, _watches: watches }
    }

    /// Returns when nothing has moved for the settling time from now on, with `false` when it never comes to rest.
    pub(super) async fn ends(&mut self) -> bool {
        let end = Instant::now() + LIMIT;
        self.last.mark_unchanged();
        while timeout(self.settle, self.last.changed()).await.is_ok() {
            // Events come in swarms; one look at each swarm is enough.
            if timeout_at(end, tokio::time::sleep(Duration::from_millis(20))).await.is_err() {
                return false;
            }
            self.last.mark_unchanged();
        }
        true
    }
}
