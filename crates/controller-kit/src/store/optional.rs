//! APIs that a cluster may or may not serve, or serve later: the CRDs of gateways, service meshes, workload providers.

use std::{collections::VecDeque, fmt::Debug};

use futures::{Stream, StreamExt, stream, stream::BoxStream};
use kube::{
    Resource,
    core::{ApiResource, NamespaceResourceScope},
    runtime::watcher::Event,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tracing::{info, warn};

use super::{
    Packed, Pauses, Source, Store, Watch,
    keep::{self, Rule},
    list_watch::WatchError,
    looks::Looks,
    served::{ServedApi, ServedApis, lately},
    watch::{partly, untyped_events},
};
use crate::failure::ErrorType;

/// Caches whole objects of a kind that need not be served. Until it is, the store is empty, complete, and says
/// [`Store::is_served`] = false; no request fails and nothing is logged over and over. When its CRD goes, so do the
/// objects.
#[must_use]
pub fn watch_if_served<K>(
    apis: &ServedApis,
    source: &Source,
    labels: Option<&str>,
) -> (Store<Packed<K>>, Watch<Packed<K>>)
where
    K: Resource<Scope = NamespaceResourceScope> + 'static,
    K::DynamicType: Default,
{
    watch_if_served_by(apis, source, labels, keep::any)
}

/// As [`watch_if_served`], and keeps as much of each object as a rule says.
#[must_use]
pub fn watch_if_served_by<K>(
    apis: &ServedApis,
    source: &Source,
    labels: Option<&str>,
    rule: Rule,
) -> (Store<Packed<K>>, Watch<Packed<K>>)
where
    K: Resource<Scope = NamespaceResourceScope> + 'static,
    K::DynamicType: Default,
{
    let store = Store::new();
    let (followed, labels) = (source.clone(), labels.map(str::to_owned));
    let optional = Optional {
        api: ServedApi::new(apis, ApiResource::erase::<K>(&K::DynamicType::default())),
        seen: None,
        looks: apis.looks(),
        store: store.clone(),
        open: Box::new(move || untyped_events(&followed, labels.as_deref(), None, rule, Pauses::default()).boxed()),
        events: None,
        pending: VecDeque::new(),
        pauses: Pauses::default(),
    };
    let watch = partly(store.clone(), source.part.as_ref(), optional.into_stream());
    (store, watch)
}

/// What an optional watch has come to.
struct Optional<O: Resource> {
    api: ServedApi,
    /// When the answer was given that it acts on.
    seen: Option<Instant>,
    looks: watch::Receiver<Looks>,
    store: Store<O>,
    open: Box<dyn Fn() -> BoxStream<'static, Result<Event<O>, WatchError>> + Send>,
    /// The watch, while the kind is served.
    events: Option<BoxStream<'static, Result<Event<O>, WatchError>>>,
    pending: VecDeque<Event<O>>,
    pauses: Pauses,
}

impl<O> Optional<O>
where
    O: Resource + Send + Sync + Debug + 'static,
{
    fn into_stream(self) -> impl Stream<Item = Result<Event<O>, WatchError>> + Send + 'static {
        stream::unfold(self, async |mut optional| Some((optional.next().await, optional)))
    }

    async fn next(&mut self) -> Result<Event<O>, WatchError> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(event);
            }
            let Some(events) = &mut self.events else {
                self.look().await;
                continue;
            };
            match events.next().await {
                Some(Err(error)) if error.error_type() == ErrorType::NotFound && self.api.is_gone().await => {
                    self.withdraw();
                }
                Some(event) => return event,
                None => self.events = None,
            }
        }
    }

    /// Returns when to look again: after a pause, or at once when the API groups have changed or an object needs the kind.
    async fn next_look(&mut self, seen: Instant) -> Instant {
        loop {
            let due = self.looks.borrow_and_update().due(seen);
            tokio::select! {
                () = sleep_until(due) => return due,
                // The sender is there as long as this is.
                _ = self.looks.changed() => {}
                () = self.store.needed() => self.api.apis().needed(),
            }
        }
    }

    /// Asks once whether the kind is served, when the last answer holds no longer. Others wait for the same moment.
    async fn look(&mut self) {
        let not_before = match self.seen {
            Some(seen) => self.next_look(seen).await,
            None => lately(),
        };
        let answer = self.api.is_served_since(not_before).await.map(|(at, served)| {
            self.seen = Some(at);
            served
        });
        match answer {
            Ok(true) => {
                info!(kind = self.store.kind(), api = self.api.api_version(), "API is served");
                self.store.set_served(true);
                self.events = Some((self.open)());
            }
            Ok(false) if self.store.is_ready() => {}
            Ok(false) => self.withdraw(),
            Err(error) => {
                warn!(kind = self.store.kind(), %error, "failed to find out whether the API is served; trying again");
                sleep(self.pauses.next_pause()).await;
                return;
            }
        }
        self.pauses.reset();
    }

    /// The kind is not served: there are no objects of it, and that is all there is to know.
    fn withdraw(&mut self) {
        info!(kind = self.store.kind(), api = self.api.api_version(), "API is not served");
        self.store.set_served(false);
        self.events = None;
        self.pending.extend([Event::Init, Event::InitDone]);
    }
}
