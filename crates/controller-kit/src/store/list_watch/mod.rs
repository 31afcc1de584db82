//! Lists all objects of a watch and follows their changes, without end.
//!
//! The initial state is streamed by the API server, which then holds no list of everything in memory, and neither do
//! we. That of Kubernetes 1.30, 1.31 or 1.33 refuses to, unless its feature gate `WatchList` is on; there, it is listed
//! in pages.
//!
//! The initial state is a consistent read: its request names no resource version. With `resourceVersion=0`, which
//! kube's watcher sends, an API server answers from its watch cache, however old that is, and a controller would act on
//! a past picture.

use std::{collections::VecDeque, fmt::Debug, time::Duration};

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, WatchEvent, WatchParams},
    core::Status,
    runtime::watcher::Event,
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tracing::{debug, warn};

use super::{anew::Reader, pause::Pauses};
use crate::failure::ErrorType;

/// The parameter of a request for the initial state; an API server that does not support it names it in its rejection.
const PARAMETER: &str = "sendInitialEvents";

/// Annotation of the bookmark after the last initial object.
const INITIAL_END: &str = "k8s.io/initial-events-end";

/// A watch is reopened after this many seconds, without another list.
const WATCH_SECONDS: u32 = 120;

/// After this long without an event or the end of the watch, the connection is dead.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);

/// Answer to a watch from a version that the API server no longer has.
const GONE: u16 = 410;

/// Answer of an API server that is busy, or has not read its storage yet. It may contain the seconds to wait.
const TOO_MANY_REQUESTS: u16 = 429;

/// Objects in one page of a list, which is in memory as a whole: 48 MiB if each is as large as etcd takes.
const PAGE: u32 = 32;

/// Reason why a watch broke. The watch is resumed after a pause.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    /// The initial list.
    #[error("cannot list: {0}")]
    List(#[source] Box<kube::Error>),
    /// The request to watch.
    #[error("cannot start to watch: {0}")]
    Start(#[source] Box<kube::Error>),
    /// An event could not be received.
    #[error("cannot read an event: {0}")]
    Event(#[source] Box<kube::Error>),
    /// The API server ended the watch.
    #[error("the API server ended the watch: {} ({})", .0.message, .0.code)]
    Ended(Box<Status>),
    /// A list from which nothing can be followed.
    #[error("the API server sent a list without a resource version")]
    NoVersion,
    /// The list is older than what was seen before.
    #[error("the API server listed the state at resource version {listed}, but {seen} was seen before; listing again")]
    Behind {
        /// Version of the list.
        listed: u64,
        /// Newest version seen.
        seen: u64,
    },
}

impl WatchError {
    /// Its kind.
    pub(crate) fn error_type(&self) -> ErrorType {
        match self {
            Self::List(error) | Self::Start(error) | Self::Event(error) => ErrorType::of(error),
            Self::Ended(status) => ErrorType::of_status(status),
            Self::NoVersion | Self::Behind { .. } => ErrorType::Unavailable,
        }
    }

    /// The answer of the API server.
    fn status(&self) -> Option<&Status> {
        match self {
            Self::List(error) | Self::Start(error) | Self::Event(error) => match error.as_ref() {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            Self::Ended(status) => Some(status),
            Self::NoVersion | Self::Behind { .. } => None,
        }
    }

    /// The version from which the watch should go on is too old.
    fn is_expired(&self) -> bool {
        self.status().is_some_and(|status| status.code == GONE)
    }

    /// The time after which the API server accepts the next request.
    fn retry_after(&self) -> Option<Duration> {
        let status = self.status().filter(|status| status.code == TOO_MANY_REQUESTS)?;
        let seconds = status.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// The API server does not stream the initial state.
    fn is_streaming_refused(&self) -> bool {
        let Self::Start(error) = self else { return false };
        matches!(error.as_ref(), kube::Error::Api(status) if status.message.contains(PARAMETER))
    }
}

/// The events of a watch that never ends, with a pause after each error. The initial state begins with [`Event::Init`]
/// when the API server has answered, so that an outage is nothing but errors.
pub(super) fn events<O: Resource + Clone + Debug + DeserializeOwned + Send + 'static>(
    api: Api<O>,
    labels: Option<&str>,
    fields: Option<&str>,
    pauses: Pauses,
) -> BoxStream<'static, Result<Event<O>, WatchError>> {
    let list_watch = ListWatch {
        api,
        labels: labels.map(str::to_owned),
        fields: fields.map(str::to_owned),
        streams: true,
        history: History::default(),
        pending: VecDeque::new(),
        state: WatchState::Start,
        reader: Reader::new(),
        pauses,
        is_broken: false,
    };
    stream::unfold(list_watch, async |mut list_watch| Some((list_watch.next().await, list_watch))).boxed()
}

struct ListWatch<O> {
    api: Api<O>,
    labels: Option<String>,
    fields: Option<String>,
    /// Whether the API server streams the initial state. It is tried once; one that is replaced by an older release may
    /// reject it later.
    streams: bool,
    history: History,
    /// Events that were received and not yet delivered.
    pending: VecDeque<Event<O>>,
    state: WatchState<O>,
    reader: Reader,
    pauses: Pauses,
    /// Whether the last event was an error.
    is_broken: bool,
}

type Events<O> = BoxStream<'static, kube::Result<WatchEvent<O>>>;

enum WatchState<O> {
    /// No list has begun.
    Start,
    /// The initial state is being streamed.
    Initial(Events<O>),
    /// The page of a list after this token comes next.
    Page(String),
    /// Changes since this version come next.
    Resume(String),
    /// Changes are being followed; the version is that of the last one.
    Following(String, Events<O>),
}

impl<O: Resource + Clone + Debug + DeserializeOwned + Send + 'static> ListWatch<O> {
    async fn next(&mut self) -> Result<Event<O>, WatchError> {
        self.reader.taken_in();
        if self.is_broken {
            pause(&mut self.pauses, self.reader.newer_requested()).await;
        }
        let event = self.next_event().await;
        self.is_broken = event.is_err();
        choose_pause(&mut self.pauses, event.as_ref().err());
        event
    }

    async fn next_event(&mut self) -> Result<Event<O>, WatchError> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                if matches!(event, Event::InitDone) {
                    self.reader.deliver();
                }
                return Ok(event);
            }
            let is_start = matches!(self.state, WatchState::Start);
            let desired = self.reader.newer_requested();
            let step = tokio::select! {
                step = self.step() => step,
                // What was received of the step is received again.
                () = desired, if !is_start => {
                    self.state = WatchState::Start;
                    continue;
                }
            };
            if let Err(error) = step {
                if !error.is_streaming_refused() || !std::mem::take(&mut self.streams) {
                    return Err(error);
                }
                debug!(url = self.api.resource_url(), "the API server does not stream the initial state; listing it");
            }
        }
    }

    /// An error leads to the start, unless the step has set another state.
    async fn step(&mut self) -> Result<(), WatchError> {
        match std::mem::replace(&mut self.state, WatchState::Start) {
            WatchState::Start if self.streams => self.start().await,
            WatchState::Start => self.page(None).await,
            WatchState::Page(token) => self.page(Some(token)).await,
            WatchState::Initial(stream) => self.initial(stream).await,
            WatchState::Resume(version) => self.resume(version).await,
            WatchState::Following(version, stream) => self.follow(version, stream).await,
        }
    }

    fn watch_params(&self) -> WatchParams {
        WatchParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            timeout: Some(WATCH_SECONDS),
            ..WatchParams::default()
        }
    }

    async fn start(&mut self) -> Result<(), WatchError> {
        self.reader.begin();
        let params = self.watch_params().initial_events();
        let stream = self.api.watch(&params, "").await.map_err(|error| WatchError::Start(Box::new(error)))?;
        self.pending.push_back(Event::Init);
        self.state = WatchState::Initial(stream.boxed());
        Ok(())
    }

    async fn initial(&mut self, mut stream: Events<O>) -> Result<(), WatchError> {
        // A stream that ends early is begun again.
        let Some(event) = received(&mut stream).await? else { return Ok(()) };
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                self.pending.push_back(Event::InitApply(object))
            }
            WatchEvent::Bookmark(bookmark) if bookmark.metadata.annotations.contains_key(INITIAL_END) => {
                let version = bookmark.metadata.resource_version;
                self.history.accept(&version)?;
                self.pending.push_back(Event::InitDone);
                self.state = WatchState::Following(version, stream);
                return Ok(());
            }
            WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(status) => return Err(WatchError::Ended(status)),
        }
        self.state = WatchState::Initial(stream);
        Ok(())
    }

    async fn page(&mut self, token: Option<String>) -> Result<(), WatchError> {
        let is_first = token.is_none();
        if is_first {
            self.reader.begin();
        }
        let params = ListParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            limit: Some(PAGE),
            continue_token: token,
            ..ListParams::default()
        };
        let list = self.api.list(&params).await.map_err(|error| WatchError::List(Box::new(error)))?;
        let filled = |text: &String| !text.is_empty();
        let version = list.metadata.resource_version.filter(filled).ok_or(WatchError::NoVersion)?;
        if is_first {
            self.history.accept(&version)?;
            self.pending.push_back(Event::Init);
        }
        self.pending.extend(list.items.into_iter().map(Event::InitApply));
        self.state = match list.metadata.continue_.filter(filled) {
            Some(token) => WatchState::Page(token),
            None => {
                self.pending.push_back(Event::InitDone);
                WatchState::Resume(version)
            }
        };
        Ok(())
    }

    async fn resume(&mut self, version: String) -> Result<(), WatchError> {
        match self.api.watch(&self.watch_params(), &version).await {
            Ok(stream) => {
                self.state = WatchState::Following(version, stream.boxed());
                Ok(())
            }
            Err(error) => self.broken(WatchError::Start(Box::new(error)), WatchState::Resume(version)),
        }
    }

    async fn follow(&mut self, mut version: String, mut stream: Events<O>) -> Result<(), WatchError> {
        let event = match received(&mut stream).await {
            Ok(Some(event)) => event,
            Ok(None) => {
                self.state = WatchState::Resume(version);
                return Ok(());
            }
            // One object that cannot be read does not end the watch of the others.
            Err(error) => return self.broken(error, WatchState::Following(version, stream)),
        };
        let event = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => Event::Apply(object),
            WatchEvent::Deleted(object) => Event::Delete(object),
            WatchEvent::Bookmark(bookmark) => {
                let version = bookmark.metadata.resource_version;
                self.history.saw(&version);
                self.state = WatchState::Following(version, stream);
                return Ok(());
            }
            WatchEvent::Error(status) => return self.broken(WatchError::Ended(status), WatchState::Resume(version)),
        };
        if let Event::Apply(object) | Event::Delete(object) = &event
            && let Some(newer) = object.resource_version()
        {
            self.history.saw(&newer);
            version = newer;
        }
        self.pending.push_back(event);
        self.state = WatchState::Following(version, stream);
        Ok(())
    }

    /// Goes on from `state` after the error, or from the start if that version is gone.
    fn broken(&mut self, error: WatchError, state: WatchState<O>) -> Result<(), WatchError> {
        if !error.is_expired() {
            self.state = state;
        }
        Err(error)
    }
}

/// Chooses the pause before a watch connects again, by its last error; none if it has worked.
fn choose_pause(pauses: &mut Pauses, error: Option<&WatchError>) {
    match (error, error.and_then(WatchError::retry_after)) {
        (None, _) => pauses.reset(),
        // After an outage the API server no longer has that version: it works again.
        (Some(error), _) if error.is_expired() => pauses.reset(),
        (Some(_), Some(pause)) => pauses.set(pause),
        (Some(_), None) => {}
    }
}

/// Waits for the next pause. A reading of all caches that is requested ends it: a takeover waits for the slowest cache.
async fn pause(pauses: &mut Pauses, requested: impl Future<Output = ()>) {
    // Returns either way when the pause is over or the reading is requested.
    let _ = timeout(pauses.next_pause(), requested).await;
}

/// The next event; none if the watch has ended or its connection is dead.
async fn received<O>(stream: &mut Events<O>) -> Result<Option<WatchEvent<O>>, WatchError> {
    let Ok(event) = timeout(SILENCE, stream.next()).await else { return Ok(None) };
    event.transpose().map_err(|error| WatchError::Event(Box::new(error)))
}

/// An API server that answers this many consistent reads in a row with the same past was restored from a backup.
const PROOFS: u32 = 3;

/// The newest version that was seen, so that a list cannot lead back in time.
#[derive(Debug, Default)]
struct History {
    newest: u64,
    behind: u32,
}

impl History {
    /// An event of this version was received. Versions that are no numbers cannot be compared.
    fn saw(&mut self, version: &str) {
        self.newest = self.newest.max(version.parse().unwrap_or_default());
    }

    /// Accepts a complete list of this version, or rejects it because it is older than what was seen before.
    fn accept(&mut self, version: &str) -> Result<(), WatchError> {
        let Ok(listed) = version.parse::<u64>() else { return Ok(()) };
        if listed < self.newest {
            self.behind += 1;
            if self.behind < PROOFS {
                return Err(WatchError::Behind { listed, seen: self.newest });
            }
            warn!(listed, seen = self.newest, "resource versions went back; the API server was restored from a backup");
        }
        *self = Self { newest: listed, behind: 0 };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
