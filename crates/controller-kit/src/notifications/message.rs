//! The body of a notification. Pure.

use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Value, json};

use super::plan::{Change, Event};
use crate::settings::Format;

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
