//! Content of an object's events, as users read them.

use std::time::Duration;

use controller_kit::events::{Event, EventSink};
use k8s_openapi::api::events::v1;
use kube::{Resource, api::ListParams};
use test_cluster::wait;

use crate::Bench;

const LIMIT: Duration = Duration::from_secs(30);

/// Found defect: events were counted together by object, action and reason, so that of two adapters or two scalings the
/// first message alone was there to read.
#[tokio::test]
async fn another_message_is_another_event_and_the_same_one_is_counted() {
    let bench = Bench::new("events").await;
    let (sink, parent) = (EventSink::new(bench.namespace.client(), "kit-test"), bench.parent.object_ref(&()));
    for note in ["1 to 3", "3 to 0", "1 to 3", "3 to 0", "0 to 1"] {
        sink.publish(&parent, Event::normal("Scaled", "Scale", note));
    }
    let expected = [("0 to 1", None), ("1 to 3", Some(2)), ("3 to 0", Some(2))].map(|(note, n)| (note.to_owned(), n));
    wait::until("all is said", LIMIT, async || {
        let events = bench.api::<v1::Event>().list(&ListParams::default()).await.unwrap();
        let said = events.items.into_iter().filter(|event| event.reason.as_deref() == Some("Scaled"));
        let mut said: Vec<_> =
            said.map(|event| (event.note.unwrap_or_default(), event.series.map(|series| series.count))).collect();
        said.sort();
        if said == expected { Ok(()) } else { Err(format!("{said:?}")) }
    })
    .await
    .unwrap();
}
