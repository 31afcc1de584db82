//! The served definition of models is the Go operator's, or an older one: its status has no field for what was loaded.

use std::collections::BTreeMap;

use serde_json::Value;
use test_cluster::{Cluster, Controllers, Options};

use crate::{
    engine::Engine,
    harness::{Harness, condition, crd, until_engine},
};

/// Fields of our status that the Go operator's definition does not declare.
const OURS_ALONE: [&str; 2] = ["adapter", "observedGeneration"];
const NOTE: &str = "operator.dynamo/adapter";

fn theirs() -> Value {
    let mut crd = crd();
    for version in crd["spec"]["versions"].as_array_mut().unwrap() {
        let status = version.pointer_mut("/schema/openAPIV3Schema/properties/status").unwrap();
        status.as_object_mut().unwrap().remove("default");
        let status = &mut status["properties"];
        for field in OURS_ALONE {
            assert!(status.as_object_mut().unwrap().remove(field).is_some(), "{field}");
        }
    }
    crd
}

/// Once what has been written has come back, another look leads to no write and no question.
async fn assert_steady(harness: &Harness, engines: &[Engine]) {
    let calm = async || {
        harness.until_reconciled("m").await;
        harness.until_reconciled("m").await;
        harness.counter("api_writes_total", &["kind=\"DynamoModel\""])
    };
    let writes = calm().await;
    engines.iter().for_each(Engine::forget_requests);
    assert_eq!(calm().await, writes);
    assert!(engines.iter().all(|engine| engine.requests().is_empty()));
}

#[tokio::test]
async fn a_status_that_cannot_remember_keeps_no_adapter_from_coming_and_going() {
    let options = Options { controllers: Controllers::Off, crds: vec![theirs()], ..Options::default() };
    let cluster = Cluster::start(options).await.unwrap();
    let mut harness = Harness::on(&cluster, "theirs").await;
    harness.start();
    let engines = harness.engines(2).await;
    harness.adapter("m", "old", "s3://1").await;
    let model = harness.until_served("m", 2).await;
    let status = model.status.as_ref().unwrap();
    assert_eq!((&status.adapter, status.observed_generation), (&None, None));
    assert_eq!(condition(&model, "EndpointsReady").unwrap().1, "AllEndpointsReady");
    assert!(model.metadata.annotations.as_ref().is_some_and(|annotations| annotations[NOTE].contains("old")));
    for engine in &engines {
        assert_eq!(engine.requests(), ["list", "load old s3://1", "list"]);
    }
    assert_steady(&harness, &engines).await;

    // What changed while no controller ran is noticed.
    harness.stop().await;
    harness.adapter("m", "new", "s3://1").await;
    harness.start();
    harness.until_served("m", 2).await;
    for engine in &engines {
        let only_new = BTreeMap::from([("new".to_owned(), "s3://1".to_owned())]);
        until_engine(engine, "let go of the old name", |engine| engine.holds() == only_new).await;
        engine.forget_requests();
    }
    harness.adapter("m", "new", "s3://2").await;
    harness.until_served("m", 2).await;
    for engine in &engines {
        assert_eq!(engine.requests(), ["unload new", "list", "load new s3://2", "list"]);
    }
    assert_steady(&harness, &engines).await;

    harness.delete("m").await;
    harness.gone("m").await;
    assert!(engines.iter().all(|engine| engine.holds().is_empty()));
}
