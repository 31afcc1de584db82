//! Events on the reconciled object: what changed, once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use api_types::names::sha256_hex;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
pub use kube::runtime::events::EventType;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::mpsc;
use tracing::{debug, warn};

use crate::{
    access::{Access, Verb},
    sync::locked,
};

/// Events waiting to be sent. More than this many means that the API server is in trouble; then events are the first
/// thing to give up.
const QUEUE: usize = 256;

/// Time limit of one event.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Objects whose last note is remembered.
const REMEMBERED: usize = 4096;

/// A repetition within this time counts in the series of the first event; later ones are events of their own.
const SERIES: Duration = Duration::from_secs(6 * 60);

/// Maximum length of an object's name within an event's name, which must not be longer than 253 characters.
const LONGEST_NAME: usize = 200;

/// The right that an [`EventSink`] needs.
pub const ACCESS: Access = Access::new("events.k8s.io", "events", &[Verb::Create, Verb::Patch], "records events");

/// An event about an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Event {
    /// Normal or Warning.
    pub type_: EventType,
    /// Reason in CamelCase.
    pub reason: String,
    /// Action in CamelCase.
    pub action: String,
    /// Message for the user, at most 1 kB.
    pub note: String,
}

impl Event {
    /// An event of type Normal.
    pub fn normal(reason: impl Into<String>, action: impl Into<String>, note: impl Into<String>) -> Self {
        Self { type_: EventType::Normal, reason: reason.into(), action: action.into(), note: note.into() }
    }

    /// An event of type Warning.
    pub fn warning(reason: impl Into<String>, action: impl Into<String>, note: impl Into<String>) -> Self {
        Self { type_: EventType::Warning, reason: reason.into(), action: action.into(), note: note.into() }
    }
}

/// Sends events in the background. Cheap to clone.
#[derive(Debug, Clone)]
pub struct EventSink {
    queue: mpsc::Sender<Waiting>,
    last: Arc<Mutex<HashMap<String, Event>>>,
}

/// An event that is to be sent.
#[derive(Debug)]
struct Waiting {
    regarding: ObjectReference,
    event: Event,
    /// Its name, if there is to be one event of this name.
    once: Option<String>,
}

impl EventSink {
    /// Starts the background task. `controller` is the reporting controller in the events.
    ///
    /// Must be called inside a Tokio runtime.
    pub fn new(client: Client, controller: &str) -> Self {
        let controller = controller.to_owned();
        let instance = std::env::var("POD_NAME").unwrap_or_else(|_| controller.clone());
        let sender = EventSender { client, controller, instance, series: HashMap::new() };
        let (queue, waiting) = mpsc::channel(QUEUE);
        tokio::spawn(sender.send(waiting));
        Self { queue, last: Arc::default() }
    }

    /// Records an event about an object. Returns at once; drops an event that repeats the last one about the object.
    pub fn publish(&self, regarding: &ObjectReference, event: Event) {
        self.put(regarding, event, None);
    }

    /// Records an event about an object once for each `about`, across processes, as long as the API server keeps the
    /// event. Returns at once.
    pub fn publish_once(&self, regarding: &ObjectReference, event: Event, about: &str) {
        let name = once_name(regarding, &event.reason, about);
        self.put(regarding, event, Some(name));
    }

    fn put(&self, regarding: &ObjectReference, mut event: Event, once: Option<String>) {
        event.note.truncate(shorten(&event.note).len());
        let mut last = locked(&self.last);
        if !is_news(&mut last, regarding.uid.as_deref().unwrap_or_default(), &event) {
            return;
        }
        if let Err(refused) = self.queue.try_send(Waiting { regarding: regarding.clone(), event, once }) {
            let Waiting { event, .. } = refused.into_inner();
            debug!(reason = event.reason, "too many events waiting; dropped one");
        }
    }
}

/// The name of the event that says something about an object once. Another object of its name gets another.
fn once_name(regarding: &ObjectReference, reason: &str, about: &str) -> String {
    let uid = regarding.uid.as_deref().unwrap_or_default();
    let print = sha256_hex([uid, reason, about].join("/").as_bytes(), 16);
    let name = regarding.name.as_deref().unwrap_or_default();
    format!("{}.{print}", name.get(..LONGEST_NAME).unwrap_or(name))
}

/// Sends events.
struct EventSender {
    client: Client,
    controller: String,
    /// Name of the pod.
    instance: String,
    /// The events that are counted on, by the uid of the object and everything that they say: another message is
    /// another event.
    series: HashMap<(String, Event), EventSeries>,
}

/// An event that was sent, and how often it was repeated.
struct EventSeries {
    event: String,
    count: i32,
    last: Instant,
}

impl EventSender {
    async fn send(mut self, mut queue: mpsc::Receiver<Waiting>) {
        while let Some(waiting) = queue.recv().await {
            let reason = waiting.event.reason.clone();
            match tokio::time::timeout(TIMEOUT, self.one(waiting)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => warn!(reason, %error, "event was not accepted"),
                Err(_) => warn!(reason, "event was not accepted in time"),
            }
        }
    }

    async fn one(&mut self, Waiting { regarding, event, once }: Waiting) -> Result<(), kube::Error> {
        let events: Api<v1::Event> = match &regarding.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::default_namespaced(self.client.clone()),
        };
        if let Some(name) = once {
            return match self.create(&events, name, &regarding, &event).await {
                // It has been said.
                Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
                answer => answer,
            };
        }
        self.series.retain(|_, series| series.last.elapsed() < SERIES);
        let key = (regarding.uid.clone().unwrap_or_default(), event.clone());
        if let Some(series) = self.series.get_mut(&key) {
            (series.count, series.last) = (series.count.saturating_add(1), Instant::now());
            let repeated = json!({"count": series.count, "lastObservedTime": MicroTime(Timestamp::now())});
            let patch = Patch::Merge(json!({"series": repeated}));
            match events.patch(&series.event, &PatchParams::default(), &patch).await {
                // The API server keeps events for an hour, or less.
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                answer => return answer.map(drop),
            }
        }
        // Two events about one object differ in time or in what they say.
        let about = format!("{}/{}/{}", event.action, event.note, Timestamp::now());
        let name = once_name(&regarding, &event.reason, &about);
        self.create(&events, name.clone(), &regarding, &event).await?;
        self.series.insert(key, EventSeries { event: name, count: 1, last: Instant::now() });
        Ok(())
    }

    async fn create(
        &self,
        events: &Api<v1::Event>,
        name: String,
        regarding: &ObjectReference,
        event: &Event,
    ) -> Result<(), kube::Error> {
        let Event { type_, reason, action, note } = event.clone();
        let event = v1::Event {
            metadata: ObjectMeta { name: Some(name), namespace: regarding.namespace.clone(), ..ObjectMeta::default() },
            event_time: Some(MicroTime(Timestamp::now())),
            reporting_instance: Some(self.instance.clone()),
            reporting_controller: Some(self.controller.clone()),
            type_: Some(if type_ == EventType::Warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(reason),
            action: Some(action),
            note: Some(note),
            regarding: Some(regarding.clone()),
            ..v1::Event::default()
        };
        events.create(&PostParams::default(), &event).await.map(drop)
    }
}

fn is_news(last: &mut HashMap<String, Event>, uid: &str, event: &Event) -> bool {
    if last.get(uid) == Some(event) {
        return false;
    }
    if last.len() >= REMEMBERED && !last.contains_key(uid) {
        // Forgetting costs at most one repeated event per object.
        last.clear();
    }
    last.insert(uid.to_owned(), event.clone());
    true
}

/// The API takes notes of up to 1 kB.
fn shorten(note: &str) -> &str {
    &note[..note.floor_char_boundary(1000)]
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use k8s_openapi::api::core::v1::ObjectReference;

    use super::{Event, EventType, REMEMBERED, is_news, once_name, shorten};

    fn event(note: &str) -> Event {
        Event { type_: EventType::Normal, reason: "R".into(), action: "A".into(), note: note.into() }
    }

    #[test]
    fn only_a_repetition_in_a_row_is_dropped() {
        let mut last = HashMap::new();
        let news: Vec<bool> = ["a", "a", "b", "a"].iter().map(|note| is_news(&mut last, "u", &event(note))).collect();
        assert_eq!(news, [true, false, true, true]);
        assert!(is_news(&mut last, "other", &event("a")), "objects are independent");
    }

    #[test]
    fn what_is_said_once_has_a_name() {
        let regarding =
            |uid: &str| ObjectReference { name: Some("p".into()), uid: Some(uid.into()), ..Default::default() };
        let name = once_name(&regarding("u"), "R", "node-1");
        assert_eq!(name, once_name(&regarding("u"), "R", "node-1"));
        for other in [(regarding("v"), "R", "node-1"), (regarding("u"), "S", "node-1"), (regarding("u"), "R", "node-2")]
        {
            assert_ne!(name, once_name(&other.0, other.1, other.2), "{other:?}");
        }
        let long = ObjectReference { name: Some("p".repeat(253)), ..Default::default() };
        assert!(once_name(&long, "R", "").len() <= 253);
    }

    #[test]
    fn memory_is_bounded() {
        let mut last = HashMap::new();
        for n in 0..=REMEMBERED {
            is_news(&mut last, &n.to_string(), &event("a"));
        }
        assert_eq!(last.len(), 1);
    }

    #[test]
    fn long_notes_are_cut_between_characters() {
        let note = "ü".repeat(600);
        assert_eq!(shorten(&note).len(), 1000);
        assert_eq!(shorten("short"), "short");
        assert_eq!(shorten(&format!("x{note}")).len(), 999);
    }
}
