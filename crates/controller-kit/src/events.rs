//! Events on the reconciled object: what changed, once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
pub use kube::runtime::events::EventType;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    runtime::events::Reporter,
};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tracing::{debug, warn};

use crate::access::{Access, Verb};

/// Events waiting to be sent. More than this many means that the API server is in trouble; then events are the first thing
/// to give up.
const QUEUE: usize = 256;

/// How long one event may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Objects whose last note is remembered.
const REMEMBERED: usize = 4096;

/// A repetition within this time counts in the series of the first event; later ones are events of their own.
const SERIES: Duration = Duration::from_secs(6 * 60);

/// What of an object's name is part of an event's, which must not be longer than 253 characters.
const LONGEST_NAME: usize = 200;

/// The right that an [`EventSink`] needs.
pub const ACCESS: Access = Access {
    group: "events.k8s.io",
    resource: "events",
    subresource: None,
    verbs: &[Verb::Create, Verb::Patch],
    why: "says what changed",
};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Happened {
    /// Normal or Warning.
    pub type_: EventType,
    /// Why, one CamelCase word.
    pub reason: String,
    /// What was done, one CamelCase word.
    pub action: String,
    /// What a user should know, at most 1 kB.
    pub note: String,
}

/// Sends events in the background. Cheap to clone.
#[derive(Debug, Clone)]
pub struct EventSink {
    queue: mpsc::Sender<Waiting>,
    last: Arc<Mutex<HashMap<String, Happened>>>,
}

/// An event that is to be sent.
#[derive(Debug)]
struct Waiting {
    parent: ObjectReference,
    happened: Happened,
    /// Its name, if there shall be one event of this name.
    once: Option<String>,
}

impl EventSink {
    /// Starts the background task. `controller` is the reporting controller in the events.
    ///
    /// Must be called inside a Tokio runtime.
    #[must_use]
    pub fn new(client: Client, controller: &str) -> Self {
        let instance = std::env::var("POD_NAME").ok();
        let reporter = Reporter { controller: controller.to_owned(), instance };
        let sender = Sender { client, reporter, series: HashMap::new() };
        let (queue, waiting) = mpsc::channel(QUEUE);
        tokio::spawn(sender.send(waiting));
        Self { queue, last: Arc::default() }
    }

    /// Reports something about `parent`. Returns at once; what was said last about it is not said again.
    pub fn publish(&self, parent: &ObjectReference, type_: EventType, reason: &str, action: &str, note: &str) {
        let (reason, action) = (reason.to_owned(), action.to_owned());
        self.put(parent, Happened { type_, reason, action, note: shorten(note).to_owned() }, None);
    }

    /// Reports something about `parent` that is said once for each `about`, whichever process says it, as long as the API
    /// server keeps the event. Returns at once.
    pub fn publish_once(&self, parent: &ObjectReference, happened: Happened, about: &str) {
        let name = once_name(parent, &happened.reason, about);
        self.put(parent, Happened { note: shorten(&happened.note).to_owned(), ..happened }, Some(name));
    }

    fn put(&self, parent: &ObjectReference, happened: Happened, once: Option<String>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_news(&mut last, parent.uid.as_deref().unwrap_or_default(), &happened) {
            return;
        }
        if let Err(refused) = self.queue.try_send(Waiting { parent: parent.clone(), happened, once }) {
            let Waiting { happened, .. } = refused.into_inner();
            debug!(reason = happened.reason, "too many events waiting; dropped one");
        }
    }
}

/// The name of the event that says something about an object once. Another object of its name gets another.
fn once_name(parent: &ObjectReference, reason: &str, about: &str) -> String {
    let uid = parent.uid.as_deref().unwrap_or_default();
    let print = Sha256::digest([uid, reason, about].join("/"));
    let print: String = print.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let name = parent.name.as_deref().unwrap_or_default();
    format!("{}.{print}", name.get(..LONGEST_NAME).unwrap_or(name))
}

/// The name of another event. Two about one object differ in time or in what they say.
fn event_name(parent: &ObjectReference, happened: &Happened, now: Timestamp) -> String {
    once_name(parent, &happened.reason, &format!("{}/{}/{now}", happened.action, happened.note))
}

/// Sends events.
struct Sender {
    client: Client,
    reporter: Reporter,
    /// The events that are counted on, by the uid of the object and everything that they say: another message is another event.
    series: HashMap<(String, Happened), Series>,
}

/// An event that was sent, and how often it was repeated.
struct Series {
    event: String,
    count: i32,
    last: Instant,
}

impl Sender {
    async fn send(mut self, mut queue: mpsc::Receiver<Waiting>) {
        while let Some(waiting) = queue.recv().await {
            let reason = waiting.happened.reason.clone();
            match tokio::time::timeout(TIMEOUT, self.one(waiting)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => warn!(reason, %error, "event was not accepted"),
                Err(_) => warn!(reason, "event was not accepted in time"),
            }
        }
    }

    async fn one(&mut self, Waiting { parent, happened, once }: Waiting) -> Result<(), kube::Error> {
        let events: Api<v1::Event> = match &parent.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::default_namespaced(self.client.clone()),
        };
        if let Some(name) = once {
            return match self.create(&events, name, &parent, &happened).await {
                // It has been said.
                Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
                answer => answer,
            };
        }
        self.series.retain(|_, series| series.last.elapsed() < SERIES);
        let key = (parent.uid.clone().unwrap_or_default(), happened.clone());
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
        let name = event_name(&parent, &happened, Timestamp::now());
        self.create(&events, name.clone(), &parent, &happened).await?;
        self.series.insert(key, Series { event: name, count: 1, last: Instant::now() });
        Ok(())
    }

    async fn create(
        &self,
        events: &Api<v1::Event>,
        name: String,
        parent: &ObjectReference,
        happened: &Happened,
    ) -> Result<(), kube::Error> {
        let Happened { type_, reason, action, note } = happened.clone();
        let Reporter { controller, instance } = self.reporter.clone();
        let event = v1::Event {
            metadata: ObjectMeta { name: Some(name), namespace: parent.namespace.clone(), ..ObjectMeta::default() },
            event_time: Some(MicroTime(Timestamp::now())),
            reporting_instance: Some(instance.unwrap_or_else(|| controller.clone())),
            reporting_controller: Some(controller),
            type_: Some(if type_ == EventType::Warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(reason),
            action: Some(action),
            note: Some(note),
            regarding: Some(parent.clone()),
            ..v1::Event::default()
        };
        events.create(&PostParams::default(), &event).await.map(drop)
    }
}

fn is_news(last: &mut HashMap<String, Happened>, uid: &str, happened: &Happened) -> bool {
    if last.get(uid) == Some(happened) {
        return false;
    }
    if last.len() >= REMEMBERED && !last.contains_key(uid) {
        // Forgetting costs at most one repeated event per object.
        last.clear();
    }
    last.insert(uid.to_owned(), happened.clone());
    true
}

/// The API takes notes of up to 1 kB.
fn shorten(note: &str) -> &str {
    let mut end = note.len().min(1000);
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    &note[..end]
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use k8s_openapi::api::core::v1::ObjectReference;

    use super::{EventType, Happened, REMEMBERED, is_news, once_name, shorten};

    fn happened(note: &str) -> Happened {
        Happened { type_: EventType::Normal, reason: "R".into(), action: "A".into(), note: note.into() }
    }

    #[test]
    fn only_a_repetition_in_a_row_is_dropped() {
        let mut last = HashMap::new();
        let told: Vec<bool> =
            ["a", "a", "b", "a"].iter().map(|note| is_news(&mut last, "u", &happened(note))).collect();
        assert_eq!(told, [true, false, true, true]);
        assert!(is_news(&mut last, "other", &happened("a")), "objects are independent");
    }

    #[test]
    fn what_is_said_once_has_a_name() {
        let parent =
            |uid: &str| ObjectReference { name: Some("p".into()), uid: Some(uid.into()), ..Default::default() };
        let name = once_name(&parent("u"), "R", "node-1");
        assert_eq!(name, once_name(&parent("u"), "R", "node-1"));
        for other in [(parent("v"), "R", "node-1"), (parent("u"), "S", "node-1"), (parent("u"), "R", "node-2")] {
            assert_ne!(name, once_name(&other.0, other.1, other.2), "{other:?}");
        }
        let long = ObjectReference { name: Some("p".repeat(253)), ..Default::default() };
        assert!(once_name(&long, "R", "").len() <= 253);
    }

    #[test]
    fn memory_is_bounded() {
        let mut last = HashMap::new();
        for n in 0..=REMEMBERED {
            is_news(&mut last, &n.to_string(), &happened("a"));
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
