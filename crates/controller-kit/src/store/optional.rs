//! APIs that a cluster may or may not serve, or serve later: the CRDs of gateways, service meshes, workload providers.

use std::{
    collections::VecDeque,
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures::{Stream, StreamExt, stream, stream::BoxStream};
use kube::{
    Client, Resource,
    core::{ApiResource, NamespaceResourceScope},
    runtime::{
        utils::Backoff,
        watcher::{self, Event},
    },
};
use tracing::{info, warn};

use super::{Packed, Pauses, Scope, Store, Watch, watch::untyped_events};
use crate::{
    apply::{Error, ObjectId, timed},
    failure::{ErrorType, Failure},
};

/// How long the answer that an API is not served holds. Somebody who installs CRDs waits that long for the first use.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// Caches whole objects of a kind that need not be served. Until it is, the store is empty, complete, and says
/// [`Store::is_served`] = false; no request fails and nothing is logged over and over. When its CRD goes, so do the objects.
#[must_use]
pub fn watch_if_served<K>(client: Client, scope: &Scope, labels: Option<&str>) -> (Store<Packed<K>>, Watch<Packed<K>>)
where
    K: Resource<Scope = NamespaceResourceScope> + 'static,
    K::DynamicType: Default,
{
    let store = Store::new();
    let (scope, labels, watched) = (scope.clone(), labels.map(str::to_owned), client.clone());
    let optional = Optional {
        api: Api::of::<K>(client),
        store: store.clone(),
        open: Box::new(move || {
            untyped_events(watched.clone(), &scope, labels.as_deref(), None, Pauses::default()).boxed()
        }),
        events: None,
        pending: VecDeque::new(),
        pauses: Pauses::default(),
    };
    let watch = Watch::into_store(store.clone(), optional.into_stream());
    (store, watch)
}

/// Tells whether a kind is served, to those who need no cache of it. Asks only when asked, and not every time.
#[derive(Clone)]
pub struct ServedApi {
    api: Api,
    known: Arc<Mutex<Option<(Instant, bool)>>>,
}

impl ServedApi {
    /// For one kind; nothing is asked yet.
    #[must_use]
    pub fn new(client: Client, resource: ApiResource) -> Self {
        Self { api: Api { client, resource }, known: Arc::default() }
    }

    /// Whether the kind is served; an answer may be ten seconds old.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn is_served(&self) -> Result<bool, Error> {
        let known = *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, served)) = known.filter(|(at, _)| at.elapsed() < ASK_AGAIN) {
            return Ok(served);
        }
        let served = self.api.is_served().await?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), served));
        Ok(served)
    }
}

/// A kind, and where to ask for it. Every authenticated user may ask what is served.
#[derive(Clone)]
struct Api {
    client: Client,
    resource: ApiResource,
}

impl Api {
    fn of<K>(client: Client) -> Self
    where
        K: Resource,
        K::DynamicType: Default,
    {
        Self { client, resource: ApiResource::erase::<K>(&K::DynamicType::default()) }
    }

    async fn is_served(&self) -> Result<bool, Error> {
        let ApiResource { group, kind, .. } = self.resource.clone();
        let id = ObjectId { group, kind, namespace: String::new(), name: self.name() };
        let answer = self.client.list_api_group_resources(&self.resource.api_version);
        match timed("look for the API of", &id, answer).await {
            Ok(list) => Ok(list.resources.iter().any(|resource| resource.name == self.resource.plural)),
            Err(error) if error.error_type() == ErrorType::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn name(&self) -> String {
        self.resource.api_version.clone()
    }
}

/// What an optional watch has come to.
struct Optional<O: Resource> {
    api: Api,
    store: Store<O>,
    open: Box<dyn Fn() -> BoxStream<'static, Result<Event<O>, watcher::Error>> + Send>,
    /// The watch, while the kind is served.
    events: Option<BoxStream<'static, Result<Event<O>, watcher::Error>>>,
    pending: VecDeque<Event<O>>,
    pauses: Pauses,
}

impl<O> Optional<O>
where
    O: Resource + Send + Sync + Debug + 'static,
{
    fn into_stream(self) -> impl Stream<Item = Result<Event<O>, watcher::Error>> + Send + 'static {
        stream::unfold(self, async |mut optional| Some((optional.next().await, optional)))
    }

    async fn next(&mut self) -> Result<Event<O>, watcher::Error> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(event);
            }
            let Some(events) = &mut self.events else {
                self.look().await;
                continue;
            };
            match events.next().await {
                Some(Err(error)) if is_not_found(&error) && matches!(self.api.is_served().await, Ok(false)) => {
                    self.withdraw();
                }
                Some(event) => return event,
                None => self.events = None,
            }
        }
    }

    /// Asks once whether the kind is served, after a pause unless it is the first time.
    async fn look(&mut self) {
        if self.store.is_ready() {
            tokio::time::sleep(ASK_AGAIN).await;
        }
        match self.api.is_served().await {
            Ok(true) => {
                info!(kind = self.store.kind(), api = self.api.name(), "API is served");
                self.store.set_served(true);
                self.events = Some((self.open)());
            }
            Ok(false) if self.store.is_ready() => {}
            Ok(false) => self.withdraw(),
            Err(error) => {
                warn!(kind = self.store.kind(), %error, "cannot tell whether the API is served; trying again");
                if let Some(pause) = self.pauses.next() {
                    tokio::time::sleep(pause).await;
                }
                return;
            }
        }
        self.pauses.reset();
    }

    /// The kind is not served: there are no objects of it, and that is all there is to know.
    fn withdraw(&mut self) {
        info!(kind = self.store.kind(), api = self.api.name(), "API is not served");
        self.store.set_served(false);
        self.events = None;
        self.pending.extend([Event::Init, Event::InitDone]);
    }
}

fn is_not_found(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => {
            ErrorType::of(error) == ErrorType::NotFound
        }
        watcher::Error::WatchError(status) => status.code == 404,
        _ => false,
    }
}
