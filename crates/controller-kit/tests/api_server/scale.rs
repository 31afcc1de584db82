//! Replicas through the scale subresource.

use controller_kit::apply::RequestError;

use crate::{Bench, D, deployment};

#[tokio::test]
async fn only_the_replicas_of_that_object_change_and_only_from_what_was_seen() {
    let bench = Bench::new("scale").await;
    let desired = bench.desired::<D>(deployment(1, "a:1"));
    bench.apply::<D>(&desired).await;
    let read = async || serde_json::from_value::<D>(bench.live::<D>("d").await.unwrap()).unwrap();
    let before = read().await;
    let replicas = async || read().await.spec.unwrap().replicas;
    for (from, to) in [(1, 0), (0, 3)] {
        bench.applier.scale(&before, &bench.uid(), from, to).await.unwrap();
        assert_eq!(replicas().await, Some(to));
    }
    let stale = bench.applier.scale(&before, &bench.uid(), 1, 5).await;
    assert!(matches!(stale, Err(RequestError::Changed { .. })), "{stale:?}");
    let mut other = before.clone();
    other.metadata.uid = Some("00000000-0000-0000-0000-000000000000".to_owned());
    let foreign = bench.applier.scale(&other, &bench.uid(), 3, 5).await;
    assert!(matches!(foreign, Err(RequestError::Changed { .. })), "{foreign:?}");
    assert_eq!(replicas().await, Some(3));
    assert_eq!(read().await.spec.unwrap().template, before.spec.unwrap().template);
}
