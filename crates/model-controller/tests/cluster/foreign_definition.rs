//! The served definition of models is the Go operator's, or an older one: its status has no field for what was loaded.

use std::collections::BTreeMap;

use serde_json::Value;
use test_cluster::{Cluster, Controllers, Options};

use crate::{
    bed::{Bed, condition, crd, until_engine},
    engine::Engine,
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
async fn assert_steady(bed: &Bed, engines: &[Engine]) {
    let calm = async || {
        bed.until_reconciled("m").await;
        bed.until_reconciled("m").await;
        bed.counter("api_writes_total", &["kind=\"DynamoModel\""])
    };
    let writes = calm().await;
    engines.iter().for_each(Engine::forget_asked);
    assert_eq!(calm().await, writes);
    assert!(engines.iter().all(|engine| engine.requests().is_empty()));
}

#[tokio::test]
async fn a_status_that_cannot_remember_keeps_no_adapter_from_coming_and_going() {
    let options = Options { controllers: Controllers::Off, crds: vec![theirs()], ..Options::default() };
    let cluster = Cluster::start(options).await.unwrap();
    let mut bed = Bed::on(&cluster, "theirs").await;
    bed.start();
    let engines = bed.engines(2).await;
    bed.adapter("m", "old", "s3://1").await;
    let model = bed.until_served("m", 2).await;
    let status = model.status.as_ref().unwrap();
    assert_eq!((&status.adapter, status.observed_generation), (&None, None));
    assert_eq!(condition(&model, "EndpointsReady").unwrap().1, "AllEndpointsReady");
    assert!(model.metadata.annotations.as_ref().is_some_and(|annotations| annotations[NOTE].contains("old")));
    for engine in &engines {
        assert_eq!(engine.requests(), ["list", "load old s3://1", "list"]);
    }
    assert_steady(&bed, &engines).await;

    // What changed while no controller ran is noticed.
    bed.stop().await;
    bed.adapter("m", "new", "s3://1").await;
    bed.start();
    bed.until_served("m", 2).await;
    for engine in &engines {
        let only_new = BTreeMap::from([("new".to_owned(), "s3://1".to_owned())]);
        until_engine(engine, "let go of the old name", |engine| engine.holds() == only_new).await;
        engine.forget_asked();
    }
    bed.adapter("m", "new", "s3://2").await;
    bed.until_served("m", 2).await;
    for engine in &engines {
        assert_eq!(engine.requests(), ["unload new", "list", "load new s3://2", "list"]);
    }
    assert_steady(&bed, &engines).await;

    bed.delete("m").await;
    bed.gone("m").await;
    assert!(engines.iter().all(|engine| engine.holds().is_empty()));
}
