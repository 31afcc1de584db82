//! Another name, another source, another controller: what was loaded before does not stay behind.

use std::collections::BTreeMap;

use crate::{
    engine::Engine,
    harness::{Harness, until_engine},
};

fn holding(name: &str, source: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(name.to_owned(), source.to_owned())])
}

/// Upstream, the adapter of the old name stayed loaded.
#[tokio::test]
async fn a_new_name_takes_the_old_adapter_away() {
    let mut harness = Harness::new("rename").await;
    let engines = harness.engines(2).await;
    harness.adapter("m", "org/../old", "s3://1").await;
    harness.until_served("m", 2).await;
    harness.adapter("m", "org/new", "s3://1").await;
    harness.until_served("m", 2).await;
    for engine in &engines {
        until_engine(engine, "let go of the old name", |engine| engine.holds() == holding("org/new", "s3://1")).await;
        assert_eq!(engine.times("unload org/../old"), 1, "{:?}", engine.requests());
    }
    harness
        .until("m", "without a past", |model| {
            model.status.as_ref().and_then(|status| status.adapter.as_ref()).is_some_and(|a| a.superseded.is_empty())
        })
        .await;
}

/// The runtime keeps what it has under a name, and says that all is well.
#[tokio::test]
async fn a_new_source_takes_the_old_adapter_away_first() {
    let mut harness = Harness::new("source").await;
    let engines = harness.engines(1).await;
    harness.adapter("m", "a", "s3://1").await;
    harness.until_served("m", 1).await;
    engines[0].forget_requests();
    harness.adapter("m", "a", "s3://2").await;
    harness.until_served("m", 1).await;
    assert_eq!(engines[0].holds(), holding("a", "s3://2"));
    assert_eq!(engines[0].requests(), ["unload a", "list", "load a s3://2", "list"]);
}

#[tokio::test]
async fn what_changed_while_no_controller_ran_is_noticed() {
    let mut harness = Harness::new("asleep").await;
    let engines = harness.engines(1).await;
    harness.adapter("renamed", "old", "s3://1").await;
    harness.adapter("moved", "a", "s3://1").await;
    harness.until_served("renamed", 1).await;
    harness.until_served("moved", 1).await;
    harness.stop().await;
    harness.adapter("renamed", "new", "s3://1").await;
    harness.adapter("moved", "a", "s3://2").await;
    harness.start();
    harness.until_served("renamed", 1).await;
    harness.until_served("moved", 1).await;
    let expected = BTreeMap::from([("a".to_owned(), "s3://2".to_owned()), ("new".to_owned(), "s3://1".to_owned())]);
    until_engine(&engines[0], "hold what is desired", |engine| engine.holds() == expected).await;
}

#[tokio::test]
async fn a_restart_of_the_controller_lists_once_and_writes_nothing() {
    let mut harness = Harness::new("again").await;
    let engines = harness.engines(2).await;
    harness.adapter("m", "a", "s3://1").await;
    let before = harness.until_served("m", 2).await;
    harness.stop().await;
    engines.iter().for_each(Engine::forget_requests);
    harness.start();
    for engine in &engines {
        until_engine(engine, "get a list request", |engine| !engine.requests().is_empty()).await;
    }
    harness.until_reconciled("m").await;
    for engine in &engines {
        assert_eq!(engine.requests(), ["list"]);
    }
    assert_eq!(harness.status_writes(), 0, "the status was true all the time");
    assert_eq!(harness.model("m").await.status, before.status);
}
