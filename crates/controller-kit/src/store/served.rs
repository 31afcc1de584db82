//! APIs that the API server serves, read once for all kinds that a process may use, and watches of those it may serve
//! later.
//!
//! A cluster may serve them or not, or serve them later: the CRDs of gateways, service meshes, workload providers.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    fmt::Debug,
    future::Future,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex},
};

use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, Shared},
    stream,
    stream::BoxStream,
};
use kube::{Client, Resource, core::ApiResource, runtime::watcher::Event};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tracing::{info, warn};

use super::{
    NamespacedKind, Packed, Pauses, Store, Watch, WatchSource,
    discovery_pauses::{DiscoveryPauses, SHORTEST},
    keep::KeepRule,
    list_watch::WatchError,
    watch::{partly, untyped_events},
};
use crate::{
    failure::{ErrorType, Failure},
    request::{ObjectId, RequestError, timed},
    sync::locked,
};

/// APIs that the API server serves. Cheap to clone; clones share what is known, so that the list of API groups is read
/// once for all missing kinds, however many there are, and ever more rarely while nothing needs them ([`DiscoveryPauses`]). Every
/// authenticated user may read it.
#[derive(Clone)]
pub struct ServedApis {
    client: Client,
    groups: Arc<ServedQuery<Arc<Groups>>>,
    discovery: Arc<watch::Sender<DiscoveryPauses>>,
}

/// Plural names of kinds.
type Kinds = Arc<BTreeSet<String>>;

/// The API groups of one moment.
struct Groups {
    /// `group/version` of all.
    versions: BTreeSet<String>,
    /// Of these.
    hash: u64,
    /// Plural names of the kinds of the requested versions.
    kinds: Mutex<HashMap<String, Arc<ServedQuery<Kinds>>>>,
}

impl ServedApis {
    /// Nothing is read yet.
    pub fn new(client: Client) -> Self {
        Self { client, groups: Arc::default(), discovery: Arc::default() }
    }
}

/// Answers whether a kind without a cache is served. Reads only when called, and not every time.
#[derive(Clone)]
pub struct ServedApi {
    apis: ServedApis,
    resource: ApiResource,
}

impl ServedApi {
    /// For one kind; nothing is read yet.
    pub fn new(apis: &ServedApis, resource: ApiResource) -> Self {
        Self { apis: apis.clone(), resource }
    }

    /// Whether the kind is served; an answer may be ten seconds old.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn is_served(&self) -> Result<bool, RequestError> {
        self.is_served_since(lately()).await.map(|(_, served)| served)
    }

    /// Whether it is served, as it was at `not_before` or later, and when that was.
    async fn is_served_since(&self, not_before: Instant) -> Result<(Instant, bool), RequestError> {
        let Self { apis: ServedApis { client, groups: query, discovery }, resource } = self;
        let sender = client.clone();
        let groups = query.answer(not_before, || async move { groups(&sender).await.map(Arc::new) });
        let (at, groups) = groups.await?;
        discovery.send_if_modified(|discovery| discovery.answered(at, groups.hash));
        let version = &resource.api_version;
        if !groups.versions.contains(version) {
            return Ok((at, false));
        }
        let query = Arc::clone(locked(&groups.kinds).entry(version.clone()).or_default());
        let (client, version) = (client.clone(), version.clone());
        // As old as the list of groups is: a newer answer takes another list.
        let kinds = query.answer(at, || async move { kinds(&client, &version).await.map(Arc::new) });
        let (_, kinds) = kinds.await?;
        Ok((at, kinds.contains(&resource.plural)))
    }

    /// Whether it is served no longer; an answer of before does not count.
    async fn is_gone(&self) -> bool {
        matches!(self.is_served_since(Instant::now()).await, Ok((_, false)))
    }
}

/// The earliest moment whose answer still holds.
fn lately() -> Instant {
    let now = Instant::now();
    now.checked_sub(SHORTEST).unwrap_or(now)
}

async fn groups(client: &Client) -> Result<Groups, RequestError> {
    let list = timed("list", &named("APIGroup", ""), client.list_api_groups()).await?;
    let versions = list.groups.into_iter().flat_map(|group| group.versions);
    let versions: BTreeSet<_> = versions.map(|version| version.group_version).collect();
    let mut hasher = DefaultHasher::new();
    versions.hash(&mut hasher);
    Ok(Groups { versions, hash: hasher.finish(), kinds: Mutex::default() })
}

async fn kinds(client: &Client, version: &str) -> Result<BTreeSet<String>, RequestError> {
    match timed("list the kinds of", &named("APIGroup", version), client.list_api_group_resources(version)).await {
        Ok(list) => Ok(list.resources.into_iter().map(|resource| resource.name).collect()),
        Err(error) if error.error_type() == ErrorType::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(error),
    }
}

fn named(kind: &str, name: &str) -> ObjectId {
    ObjectId { group: String::new(), kind: kind.to_owned(), namespace: String::new(), name: name.to_owned() }
}

/// A request to the API server that is shared by all that wait for the answer.
struct ServedQuery<T> {
    state: Mutex<ServedState<T>>,
}

type SharedRequest<T> = Shared<BoxFuture<'static, Result<T, RequestError>>>;

struct ServedState<T> {
    known: Option<(Instant, T)>,
    sent: Option<(Instant, SharedRequest<T>)>,
}

impl<T> Default for ServedQuery<T> {
    fn default() -> Self {
        Self { state: Mutex::new(ServedState { known: None, sent: None }) }
    }
}

impl<T: Clone + Send + Sync + 'static> ServedQuery<T> {
    /// An answer to a request that was sent at `not_before` or later, and when that was. A failure is returned to all
    /// callers that waited, and not remembered.
    async fn answer<F>(&self, not_before: Instant, send: impl FnOnce() -> F) -> Result<(Instant, T), RequestError>
    where
        F: Future<Output = Result<T, RequestError>> + Send + 'static,
    {
        let (at, sent) = {
            let mut state = locked(&self.state);
            if let Some((at, known)) = state.known.as_ref().filter(|(at, _)| *at >= not_before) {
                return Ok((*at, known.clone()));
            }
            match &state.sent {
                Some((at, sent)) if *at >= not_before => (*at, sent.clone()),
                _ => {
                    let (at, sent) = (Instant::now(), send().boxed().shared());
                    state.sent = Some((at, sent.clone()));
                    (at, sent)
                }
            }
        };
        let answer = sent.await;
        let mut state = locked(&self.state);
        state.sent = state.sent.take().filter(|(other, _)| *other != at);
        if let Ok(answer) = &answer
            && state.known.as_ref().is_none_or(|(known, _)| *known < at)
        {
            state.known = Some((at, answer.clone()));
        }
        answer.map(|answer| (at, answer))
    }
}

/// Caches whole objects of a kind that need not be served. Until it is, the store is empty, complete, and says
/// [`Store::is_served`] = false; no request fails and nothing is logged over and over. When its CRD goes, so do the
/// objects. As much of each is kept as a rule says.
#[must_use]
pub fn watch_if_served<K: NamespacedKind>(
    apis: &ServedApis,
    source: &WatchSource,
    labels: Option<&str>,
    rule: KeepRule,
) -> (Store<Packed<K>>, Watch<Packed<K>>) {
    let store = Store::compressed();
    let (followed, labels) = (source.clone(), labels.map(str::to_owned));
    let optional = Optional {
        api: ServedApi::new(apis, ApiResource::erase::<K>(&K::DynamicType::default())),
        seen: None,
        discovery: apis.discovery.subscribe(),
        store: store.clone(),
        open: Box::new(move || untyped_events(&followed, labels.as_deref(), None, rule, Pauses::default()).boxed()),
        events: None,
        pending: VecDeque::new(),
        pauses: Pauses::default(),
    };
    let events = stream::unfold(optional, async |mut optional| Some((optional.next().await, optional)));
    let watch = partly(store.clone(), source.part.as_ref(), events);
    (store, watch)
}

/// State of an optional watch.
struct Optional<O: Resource> {
    api: ServedApi,
    /// Time of the answer that it acts on.
    seen: Option<Instant>,
    discovery: watch::Receiver<DiscoveryPauses>,
    store: Store<O>,
    open: Box<dyn Fn() -> BoxStream<'static, Result<Event<O>, WatchError>> + Send>,
    /// The watch, while the kind is served.
    events: Option<BoxStream<'static, Result<Event<O>, WatchError>>>,
    pending: VecDeque<Event<O>>,
    pauses: Pauses,
}

impl<O: Resource + Send + Sync + Debug + 'static> Optional<O> {
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
            let due = self.discovery.borrow_and_update().due(seen);
            tokio::select! {
                () = sleep_until(due) => return due,
                // The sender is there as long as this is.
                _ = self.discovery.changed() => {}
                () = self.store.needed() => {
                    self.api.apis.discovery.send_if_modified(|discovery| discovery.needed(Instant::now()));
                }
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
                info!(kind = self.store.kind(), api = self.api.resource.api_version, "API is served");
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

    /// The kind is not served: there are no objects of it.
    fn withdraw(&mut self) {
        info!(kind = self.store.kind(), api = self.api.resource.api_version, "API is not served");
        self.store.set_served(false);
        self.events = None;
        self.pending.extend([Event::Init, Event::InitDone]);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use futures::future::join_all;

    use super::*;

    /// Answers with the number of requests so far, after a second; the second time with a failure.
    async fn request(count: Arc<AtomicUsize>) -> Result<usize, RequestError> {
        let nth = count.fetch_add(1, Ordering::SeqCst) + 1;
        tokio::time::sleep(Duration::from_secs(1)).await;
        if nth == 2 { Err(RequestError::Changed { object: named("Test", "t") }) } else { Ok(nth) }
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_serves_all() {
        let (query, count) = (ServedQuery::default(), Arc::<AtomicUsize>::default());
        let all = async |not_before: Instant| {
            let one = |_| query.answer(not_before, || request(Arc::clone(&count)));
            let answers = join_all((0..5).map(one)).await;
            answers.into_iter().map(|answer| answer.ok().map(|(_, nth)| nth)).collect::<BTreeSet<_>>()
        };
        let begin = Instant::now();
        assert_eq!(all(begin).await, [Some(1)].into());
        assert_eq!(all(begin).await, [Some(1)].into(), "it is known");
        let later = begin + SHORTEST;
        tokio::time::sleep_until(later).await;
        assert_eq!(all(later).await, [None].into(), "all get the failure");
        assert_eq!(all(begin).await, [Some(1)].into(), "what was known before is known still");
        assert_eq!(all(later).await, [Some(3)].into(), "a failure is not remembered");
        assert_eq!(count.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_requested_too_early_is_requested_again() {
        let (query, count) = (Arc::new(ServedQuery::default()), Arc::<AtomicUsize>::default());
        let (early, counted) = (Arc::clone(&query), Arc::clone(&count));
        let begin = Instant::now();
        let first = tokio::spawn(async move { early.answer(begin, || request(counted)).await.unwrap().1 });
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = Instant::now();
        assert!(query.answer(now, || request(Arc::clone(&count))).await.is_err(), "the second query");
        assert_eq!(first.await.unwrap(), 1);
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }
}
