//! Notifications as their receivers read them, and how they are posted.

use std::{fs, path::Path, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, header};
use k8s_openapi::api::core::v1::ObjectReference;
use outbound::{Limits, Outbound, Trust};
use serde_json::{Value, json};

use super::{
    deliveries::Shipment,
    plan::{Change, Event},
};
use crate::settings::{Format, Receiver};

/// Limits of a request.
const LIMITS: Limits = Limits { patience: Duration::from_secs(10), longest: 64 << 10 };

/// A receiver, and the client for it.
pub struct Sender {
    receiver: Receiver,
    client: Outbound,
}

/// Why a receiver of the configuration cannot be used.
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
pub fn body(format: Format, object: &ObjectReference, event: &Event, sender: &str) -> (&'static str, Value) {
    match format {
        Format::CloudEvents => ("application/cloudevents+json", cloud_event(object, event, sender)),
        Format::Slack => ("application/json", json!({ "text": slack(object, event) })),
    }
}

fn cloud_event(object: &ObjectReference, event: &Event, sender: &str) -> Value {
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

fn slack(object: &ObjectReference, event: &Event) -> String {
    let field = |field: &Option<String>| escaped(field.as_deref().unwrap_or_default());
    let object = format!("{} `{}/{}`", field(&object.kind), field(&object.namespace), field(&object.name));
    let reason = escaped(&event.reason);
    match event.change {
        Change::Failing => format!("*Failing*: {object}: {reason}\n{}", escaped(&event.message)),
        Change::Resolved => format!("*Resolved*: {object}: {reason}"),
    }
}

/// The three characters that Slack's text formatting gives a meaning: a message can mention no person and link nowhere.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_receiver_that_cannot_be_used_is_named_with_its_key() {
        for (receiver, expected) in [
            (json!({ "url": "http://a" }), "notifications.receivers[3].name: is required"),
            (json!({ "name": "a" }), "notifications.receivers[3]: set one of url and urlFile"),
            (json!({ "name": "a", "url": "http://a", "urlFile": "/f" }), "set one of url and urlFile"),
            (json!({ "name": "a", "url": "http://a b" }), "notifications.receivers[3].url: "),
            (json!({ "name": "a", "url": "http://a", "caFile": "/nowhere" }), "notifications.receivers[3].caFile: "),
        ] {
            let receiver = serde_json::from_value(receiver).unwrap();
            let Err(error) = Sender::new(3, &receiver) else { panic!("{receiver:?} is accepted") };
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
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

    fn event(change: Change) -> Event {
        let (reason, message) = ("ImagePullFailed".to_owned(), "<!channel> & co".to_owned());
        Event { id: "0123".to_owned(), change, reason, message }
    }

    #[test]
    fn a_cloud_event_has_its_required_attributes_and_names_the_object() {
        let (type_, body) = body(Format::CloudEvents, &object(), &event(Change::Failing), "graph-controller");
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
        let text = |change| body(Format::Slack, &object(), &event(change), "graph-controller").1["text"].clone();
        let failing = "*Failing*: DynamoGraphDeployment `team/graph`: ImagePullFailed\n&lt;!channel&gt; &amp; co";
        assert_eq!(text(Change::Failing), failing);
        assert_eq!(text(Change::Resolved), "*Resolved*: DynamoGraphDeployment `team/graph`: ImagePullFailed");
    }
}
