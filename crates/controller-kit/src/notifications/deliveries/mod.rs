//! Deliveries of notifications that are under way, and their content as receivers read it.
//!
//! The choice of the next delivery is pure: time comes in from outside. Each notification is posted to its receiver.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::Path,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, header};
use k8s_openapi::api::core::v1::ObjectReference;
use outbound::{Limits, Outbound, Trust};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::plan::{HealthChange, NotificationEvent};
use crate::{
    fairness::{Backoff, FairQueue},
    settings::{NotificationFormat, Receiver},
};

/// Notifications that are sent at the same time.
const PLACES: usize = 8;
/// Pause before a reconcile checks again whether a notification was delivered.
const POLL: Duration = Duration::from_secs(1);
/// Shortest time between two notifications of one object: what comes and goes in between is not delivered.
const GAP: Duration = Duration::from_secs(10);
/// Notifications of one namespace in each [`WINDOW`].
const MAX_PER_WINDOW: usize = 60;
const WINDOW: Duration = Duration::from_secs(60);
/// Objects whose deliveries are remembered. Those beyond wait.
const MAX_OBJECTS: usize = 10_000;
/// Time for which a delivery is remembered that no reconcile requests: its object no longer exists.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(900);

/// Answer to an offered event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// All receivers have accepted it.
    Done,
    /// Offer it again after this time.
    Pending(Duration),
}

/// Event to be sent, and the receivers that have accepted it.
#[derive(Debug, Clone, PartialEq)]
pub struct Shipment {
    /// The object.
    pub object: ObjectReference,
    /// The event.
    pub event: NotificationEvent,
    /// Indices of the receivers that have accepted the event.
    pub accepted: BTreeSet<usize>,
}

/// Deliveries by the uid of their object: one for each object.
#[derive(Debug)]
pub struct Deliveries {
    entries: HashMap<String, DeliveryEntry>,
    queue: FairQueue<String>,
    backoff: Backoff<String>,
    window: Option<Instant>,
    started: HashMap<String, usize>,
}

#[derive(Debug)]
struct DeliveryEntry {
    shipment: Shipment,
    phase: DeliveryPhase,
    last_offer: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeliveryPhase {
    Waiting,
    Sending,
    Failed { again: Instant },
    Done { at: Instant },
}

impl Deliveries {
    /// None.
    pub fn new() -> Self {
        Self {
            entries: HashMap::new(),
            queue: FairQueue::new(PLACES),
            backoff: Backoff::default(),
            window: None,
            started: HashMap::new(),
        }
    }

    /// A reconcile found that this event is due.
    pub fn offer(&mut self, object: &ObjectReference, event: &NotificationEvent, now: Instant) -> Delivery {
        let uid = object.uid.clone().unwrap_or_default();
        let mut accepted = BTreeSet::new();
        if let Some(entry) = self.entries.get_mut(&uid) {
            entry.last_offer = now;
            let same = entry.shipment.event.id == event.id;
            let rest = match entry.phase {
                DeliveryPhase::Done { .. } if same => return Delivery::Done,
                DeliveryPhase::Waiting if same => Some(POLL),
                DeliveryPhase::Sending => Some(POLL),
                DeliveryPhase::Failed { again } if same => again.checked_duration_since(now),
                DeliveryPhase::Done { at } => (at + GAP).checked_duration_since(now),
                // What was not delivered yet is out of date.
                DeliveryPhase::Waiting | DeliveryPhase::Failed { .. } => None,
            };
            if let Some(rest) = rest.filter(|rest| !rest.is_zero()) {
                return Delivery::Pending(rest);
            }
            if same {
                accepted.clone_from(&entry.shipment.accepted);
            }
        }
        let namespace = object.namespace.clone().unwrap_or_default();
        if let Some(rest) = self.exhausted(&uid, &namespace, now) {
            return Delivery::Pending(rest);
        }
        let waits = self.entries.get(&uid).is_some_and(|entry| entry.phase == DeliveryPhase::Waiting);
        let shipment = Shipment { object: object.clone(), event: event.clone(), accepted };
        self.entries.insert(uid.clone(), DeliveryEntry { shipment, phase: DeliveryPhase::Waiting, last_offer: now });
        if !waits {
            *self.started.entry(namespace.clone()).or_default() += 1;
            self.queue.push(&namespace, uid);
        }
        Delivery::Pending(POLL)
    }

    /// Returns the wait of an object because its namespace, or the process, has the maximum number of deliveries.
    fn exhausted(&mut self, uid: &str, namespace: &str, now: Instant) -> Option<Duration> {
        let begun = *self.window.get_or_insert(now);
        let rest = (begun + WINDOW).checked_duration_since(now).unwrap_or_default();
        if rest.is_zero() {
            self.window = Some(now);
            self.started.clear();
            let forgotten = |entry: &DeliveryEntry| {
                entry.last_offer + FORGOTTEN_AFTER < now && entry.phase != DeliveryPhase::Sending
            };
            for (uid, _) in self.entries.extract_if(|_, entry| forgotten(entry)) {
                self.backoff.clear(&uid);
            }
            return None;
        }
        let is_full = self.entries.len() >= MAX_OBJECTS && !self.entries.contains_key(uid);
        let is_spent = self.started.get(namespace).is_some_and(|started| *started >= MAX_PER_WINDOW);
        (is_full || is_spent).then_some(rest)
    }

    /// The next event to send, if there is room.
    pub fn start(&mut self) -> Option<Shipment> {
        loop {
            let uid = self.queue.pop()?;
            // It may have been forgotten meanwhile.
            let Some(entry) = self.entries.get_mut(&uid) else { continue };
            entry.phase = DeliveryPhase::Sending;
            self.queue.take(entry.shipment.object.namespace.as_deref().unwrap_or_default(), 1);
            return Some(entry.shipment.clone());
        }
    }

    /// An event was sent; all receivers have accepted it, or another attempt is due.
    pub fn finish(&mut self, shipment: Shipment, all: bool, now: Instant) {
        self.queue.give_back(shipment.object.namespace.as_deref().unwrap_or_default());
        let uid = shipment.object.uid.clone().unwrap_or_default();
        let phase = match all {
            true => {
                self.backoff.clear(&uid);
                DeliveryPhase::Done { at: now }
            }
            false => DeliveryPhase::Failed { again: now + self.backoff.next(&uid) },
        };
        if let Some(entry) = self.entries.get_mut(&uid) {
            (entry.phase, entry.shipment) = (phase, shipment);
        }
    }
}

/// Limits of a request.
const LIMITS: Limits = Limits { patience: Duration::from_secs(10), longest: 64 << 10 };

/// A receiver, and the client for it.
pub struct Sender {
    receiver: Receiver,
    client: Outbound,
}

/// Reason why a receiver of the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("notifications.receivers[{index}]{path}: {reason}")]
pub struct ReceiverError {
    index: usize,
    path: &'static str,
    reason: String,
}

impl Sender {
    /// The client for a receiver of the configuration.
    ///
    /// # Errors
    /// If the receiver has no name, no URL or two, or unusable certificate authorities.
    pub fn new(index: usize, receiver: &Receiver) -> Result<Self, ReceiverError> {
        let invalid = |path, reason: String| ReceiverError { index, path, reason };
        if receiver.name.is_empty() {
            return Err(invalid(".name", "is required".to_owned()));
        }
        if receiver.url.is_empty() == receiver.url_file.is_none() {
            return Err(invalid("", "set one of url and urlFile".to_owned()));
        }
        if receiver.url_file.is_none() {
            Request::post(&receiver.url).body(()).map_err(|error| invalid(".url", error.to_string()))?;
        }
        let unusable = |error: &dyn std::fmt::Display| invalid(".caFile", error.to_string());
        let additional = receiver.ca_file.as_ref().map(fs::read).transpose().map_err(|error| unusable(&error))?;
        let client = Outbound::new(&Trust { additional, ..Trust::default() }).map_err(|error| unusable(&error))?;
        Ok(Self { receiver: receiver.clone(), client })
    }

    /// Name of the receiver.
    pub fn name(&self) -> &str {
        &self.receiver.name
    }

    /// Posts an event. The text of an error has nothing that is secret.
    pub async fn send(&self, shipment: &Shipment, program: &str) -> Result<(), String> {
        let answer = self.client.send(self.request(shipment, program)?, LIMITS).await;
        let status = answer.map_err(|error| error.to_string())?.status();
        if status.is_success() { Ok(()) } else { Err(format!("the receiver answered {status}")) }
    }

    fn request(&self, shipment: &Shipment, program: &str) -> Result<Request<Bytes>, String> {
        let receiver = &self.receiver;
        let url = receiver.url_file.as_deref().map(read).transpose()?;
        let (type_, body) = body(receiver.format, &shipment.object, &shipment.event, program);
        let mut request = Request::post(url.as_deref().unwrap_or(&receiver.url)).header(header::CONTENT_TYPE, type_);
        if let Some(header) = &receiver.header {
            let mut value = HeaderValue::try_from(read(&header.value_file)?)
                .map_err(|_| format!("{} is no value of a header", header.value_file.display()))?;
            value.set_sensitive(true);
            request = request.header(&header.name, value);
        }
        request.body(body.to_string().into()).map_err(|error| error.to_string())
    }
}

fn read(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(text.trim().to_owned())
}

/// Content type and body of a notification.
pub fn body(
    format: NotificationFormat,
    object: &ObjectReference,
    event: &NotificationEvent,
    sender: &str,
) -> (&'static str, Value) {
    match format {
        NotificationFormat::CloudEvents => ("application/cloudevents+json", cloud_event(object, event, sender)),
        NotificationFormat::Slack => ("application/json", json!({ "text": slack(object, event) })),
    }
}

fn cloud_event(object: &ObjectReference, event: &NotificationEvent, sender: &str) -> Value {
    let namespace = object.namespace.as_deref().unwrap_or_default();
    let name = object.name.as_deref().unwrap_or_default();
    json!({
        "specversion": "1.0",
        "id": event.id,
        "source": format!("/{sender}"),
        "type": format!("dynamo.operator.{}", event.change.as_str()),
        "subject": format!("{}/{namespace}/{name}", object.kind.as_deref().unwrap_or_default()),
        "datacontenttype": "application/json",
        "data": {
            "apiVersion": object.api_version, "kind": object.kind, "namespace": namespace, "name": name,
            "uid": object.uid, "reason": event.reason, "message": event.message,
        },
    })
}

fn slack(object: &ObjectReference, event: &NotificationEvent) -> String {
    let field = |field: &Option<String>| escaped(field.as_deref().unwrap_or_default());
    let object = format!("{} `{}/{}`", field(&object.kind), field(&object.namespace), field(&object.name));
    let reason = escaped(&event.reason);
    match event.change {
        HealthChange::Failing => format!("*Failing*: {object}: {reason}\n{}", escaped(&event.message)),
        HealthChange::Resolved => format!("*Resolved*: {object}: {reason}"),
    }
}

/// The three characters that Slack's text formatting gives a meaning: a message can mention no person and link nowhere.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod message_tests {
    use super::*;

    fn object() -> ObjectReference {
        let text = |text: &str| Some(text.to_owned());
        ObjectReference {
            api_version: text("nvidia.com/v1beta1"),
            kind: text("DynamoGraphDeployment"),
            namespace: text("team"),
            name: text("graph"),
            uid: text("uid"),
            ..ObjectReference::default()
        }
    }

    fn event(change: HealthChange) -> NotificationEvent {
        let (reason, message) = ("ImagePullFailed".to_owned(), "<!channel> & co".to_owned());
        NotificationEvent { id: "0123".to_owned(), change, reason, message }
    }

    #[test]
    fn a_cloud_event_has_its_required_attributes_and_names_the_object() {
        let (type_, body) =
            body(NotificationFormat::CloudEvents, &object(), &event(HealthChange::Failing), "graph-controller");
        assert_eq!(type_, "application/cloudevents+json");
        assert_eq!(
            body,
            json!({
                "specversion": "1.0", "id": "0123", "source": "/graph-controller", "type": "dynamo.operator.failing",
                "subject": "DynamoGraphDeployment/team/graph", "datacontenttype": "application/json",
                "data": { "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "namespace": "team",
                    "name": "graph", "uid": "uid", "reason": "ImagePullFailed", "message": "<!channel> & co" },
            })
        );
    }

    #[test]
    fn a_message_has_no_effect_on_the_form_of_slack() {
        let text =
            |change| body(NotificationFormat::Slack, &object(), &event(change), "graph-controller").1["text"].clone();
        let failing = "*Failing*: DynamoGraphDeployment `team/graph`: ImagePullFailed\n&lt;!channel&gt; &amp; co";
        assert_eq!(text(HealthChange::Failing), failing);
        assert_eq!(text(HealthChange::Resolved), "*Resolved*: DynamoGraphDeployment `team/graph`: ImagePullFailed");
    }
}
