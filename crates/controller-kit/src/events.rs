//! Events on the reconciled object: what changed, once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, Recorder, Reporter},
};
use tokio::sync::mpsc;
use tracing::{debug, warn};

pub use kube::runtime::events::EventType;

/// Events waiting to be sent. More than this many means that the API server is in trouble; then events are the first thing
/// to give up.
const QUEUE: usize = 256;

/// How long one event may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Objects whose last note is remembered.
const REMEMBERED: usize = 4096;

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
    queue: mpsc::Sender<(ObjectReference, Happened)>,
    last: Arc<Mutex<HashMap<String, Happened>>>,
}

impl EventSink {
    /// Starts the background task. `controller` is the reporting controller in the events.
    ///
    /// Must be called inside a Tokio runtime.
    #[must_use]
    pub fn new(client: Client, controller: &str) -> Self {
        let instance = std::env::var("POD_NAME").ok();
        let recorder = Recorder::new(client, Reporter { controller: controller.to_owned(), instance });
        let (queue, waiting) = mpsc::channel(QUEUE);
        tokio::spawn(send(recorder, waiting));
        Self { queue, last: Arc::default() }
    }

    /// Reports something about `parent`. Returns at once; what was said last about it is not said again.
    pub fn publish(&self, parent: &ObjectReference, type_: EventType, reason: &str, action: &str, note: &str) {
        let happened =
            Happened { type_, reason: reason.to_owned(), action: action.to_owned(), note: shorten(note).to_owned() };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if is_news(&mut last, parent.uid.as_deref().unwrap_or_default(), &happened)
            && self.queue.try_send((parent.clone(), happened)).is_err()
        {
            debug!(reason, "too many events waiting; dropped one");
        }
    }
}

async fn send(recorder: Recorder, mut waiting: mpsc::Receiver<(ObjectReference, Happened)>) {
    while let Some((parent, happened)) = waiting.recv().await {
        let event = Event {
            type_: happened.type_,
            reason: happened.reason,
            action: happened.action,
            note: Some(happened.note),
            secondary: None,
        };
        match tokio::time::timeout(TIMEOUT, recorder.publish(&event, &parent)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(reason = event.reason, %error, "event was not accepted"),
            Err(_) => warn!(reason = event.reason, "event was not accepted in time"),
        }
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

    use super::{EventType, Happened, REMEMBERED, is_news, shorten};

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
