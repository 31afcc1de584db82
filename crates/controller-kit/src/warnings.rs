//! Warning events of Kubernetes about single objects. Only events say why a volume cannot be mounted or a StatefulSet
//! gets no pods.

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::Event,
    apimachinery::pkg::apis::meta::v1::{MicroTime, Time},
};
use kube::{Api, Client, api::ListParams};
use serde::Deserialize;
use tracing::debug;

use crate::{
    access::{Access, Verb},
    read::read,
    store::Packed,
};

/// The right that [`warnings`] needs.
pub const ACCESS: Access = Access {
    group: "",
    resource: "events",
    subresource: None,
    verbs: &[Verb::List],
    why: "why pods do not start where their status does not say it: volumes that cannot be mounted, and pods that are rejected",
};

/// A warning about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Name of the object.
    pub object: String,
    /// What happened.
    pub message: String,
    /// When it happened last; `None` if the event does not say.
    pub last: Option<Timestamp>,
}

/// Lists the events of a reason about objects of a kind in a namespace, the latest first. `more` selects by further
/// fields, such as `involvedObject.uid=…`. Without an answer, or the right to ask, there are none.
pub async fn warnings(client: &Client, namespace: &str, kind: &str, reason: &str, more: Option<&str>) -> Vec<Warning> {
    let api: Api<Packed<Event>> = Api::namespaced(client.clone(), namespace);
    let more = more.map(|more| format!(",{more}")).unwrap_or_default();
    let fields = format!("type=Warning,involvedObject.kind={kind},reason={reason}{more}");
    let params = ListParams::default().fields(&fields);
    match read(|| format!("list the events of {namespace} with {fields}"), api.list(&params)).await {
        Ok(events) => {
            let mut all: Vec<_> = events.items.iter().filter_map(warning).collect();
            all.sort_by_key(|warning| std::cmp::Reverse(warning.last));
            all
        }
        Err(error) => {
            debug!(%error, "events were not looked at");
            Vec::new()
        }
    }
}

/// What is read of an event, a fraction of it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WarningEvent {
    involved_object: Involved,
    message: String,
    event_time: Option<MicroTime>,
    last_timestamp: Option<Time>,
    series: Option<WarningSeries>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Involved {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WarningSeries {
    last_observed_time: Option<MicroTime>,
}

/// `None` if the event cannot be read.
fn warning(event: &Packed<Event>) -> Option<Warning> {
    let event: WarningEvent = serde_json::from_value(event.value()).ok()?;
    let series = event.series.and_then(|series| series.last_observed_time).map(|time| time.0);
    let single = event.last_timestamp.map(|time| time.0);
    let first = event.event_time.map(|time| time.0);
    Some(Warning { object: event.involved_object.name, message: event.message, last: series.max(single).max(first) })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Event;
    use serde_json::json;

    use super::{Warning, warning};
    use crate::store::Packed;

    fn read(event: serde_json::Value) -> Option<Warning> {
        warning(&Packed::<Event>::from_value(event).unwrap())
    }

    #[test]
    fn an_event_of_either_kind_says_what_happened_to_what_and_when_last() {
        let old = json!({
            "metadata": { "name": "e" }, "involvedObject": { "kind": "Pod", "name": "p" }, "message": "no such claim",
            "reason": "FailedMount", "count": 3, "eventTime": null, "series": null,
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:05:00Z",
        });
        let last = Some("2026-01-01T00:05:00Z".parse().unwrap());
        assert_eq!(read(old), Some(Warning { object: "p".into(), message: "no such claim".into(), last }));
        let new = json!({
            "metadata": { "name": "e" }, "involvedObject": { "name": "p" }, "eventTime": "2026-01-01T00:00:00.000001Z",
            "lastTimestamp": null, "series": { "count": 2, "lastObservedTime": "2026-01-01T00:06:00.000001Z" },
        });
        let last = Some("2026-01-01T00:06:00.000001Z".parse().unwrap());
        assert_eq!(read(new), Some(Warning { object: "p".into(), message: String::new(), last }));
        let once = json!({ "metadata": { "name": "e" }, "eventTime": "2026-01-01T00:00:00.000001Z" });
        assert_eq!(read(once).unwrap().last, Some("2026-01-01T00:00:00.000001Z".parse().unwrap()));
    }

    #[test]
    fn an_event_that_cannot_be_read_says_nothing() {
        assert_eq!(read(json!({ "metadata": { "name": "e" }, "message": 7 })), None);
    }
}
