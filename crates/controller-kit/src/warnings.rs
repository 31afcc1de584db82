//! What Kubernetes warns of, about single objects. Only events tell why a volume cannot be mounted or a StatefulSet gets no pods.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::{Api, Client, api::ListParams};
use tracing::debug;

use crate::read::read;

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

/// Lists the events of a reason about objects of a kind in a namespace, the latest first. `more` selects by further fields, such
/// as `involvedObject.uid=…`. Without an answer, or the right to ask, there are none.
pub async fn warnings(client: &Client, namespace: &str, kind: &str, reason: &str, more: Option<&str>) -> Vec<Warning> {
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    let more = more.map(|more| format!(",{more}")).unwrap_or_default();
    let fields = format!("type=Warning,involvedObject.kind={kind},reason={reason}{more}");
    let params = ListParams::default().fields(&fields);
    match read(|| format!("list the events of {namespace} with {fields}"), api.list(&params)).await {
        Ok(events) => {
            let mut all: Vec<_> = events.items.into_iter().map(warning).collect();
            all.sort_by_key(|warning| std::cmp::Reverse(warning.last));
            all
        }
        Err(error) => {
            debug!(%error, "events were not looked at");
            Vec::new()
        }
    }
}

fn warning(event: Event) -> Warning {
    let series = event.series.and_then(|series| series.last_observed_time);
    let first = event.event_time.map(|time| time.0);
    Warning {
        object: event.involved_object.name.unwrap_or_default(),
        message: event.message.unwrap_or_default(),
        last: series.map(|time| time.0).max(event.last_timestamp.map(|time| time.0)).max(first),
    }
}
