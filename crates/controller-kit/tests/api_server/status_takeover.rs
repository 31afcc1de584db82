//! Statuses that the upstream operator wrote by updates.

use controller_kit::store::Packed;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::Bench;

async fn live(bench: &Bench) -> Packed<Job> {
    Packed::from_value(bench.live::<Job>("j").await.unwrap()).unwrap()
}

/// A Job whose status no controller of Kubernetes writes, with a status by the upstream operator.
async fn job(bench: &Bench, status: Value) {
    let job = json!({
        "metadata": { "name": "j" },
        "spec": {
            "managedBy": "example.com/other",
            "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "i:1" }] } },
        },
    });
    bench.api::<Job>().create(&PostParams::default(), &serde_json::from_value(job).unwrap()).await.unwrap();
    by(bench, "manager", status).await;
}

async fn by(bench: &Bench, manager: &str, status: Value) {
    let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
    bench.api::<Job>().patch_status("j", &params, &Patch::Merge(json!({ "status": status }))).await.unwrap();
}

/// Found defect: what the Go operator had set in a status and we do not set stayed for ever, such as the end of a
/// rollout of years ago beside the beginning of today's.
#[tokio::test]
async fn a_status_loses_the_fields_of_the_upstream_operator() {
    let bench = Bench::new("status-takeover").await;
    job(&bench, json!({ "active": 3, "terminating": 1, "ready": 1 })).await;
    let before = live(&bench).await.value()["spec"].take();

    // A field in common stays until it is no longer set.
    let first = json!({ "active": 2, "ready": 1 });
    assert!(bench.applier.patch_status(&live(&bench).await, &first).await.unwrap());
    assert_eq!(live(&bench).await.status(), first);
    assert!(!bench.applier.patch_status(&live(&bench).await, &first).await.unwrap(), "once");
    let second = json!({ "active": 2 });
    assert!(bench.applier.patch_status(&live(&bench).await, &second).await.unwrap());
    assert_eq!(live(&bench).await.status(), second);
    assert_eq!(live(&bench).await.value()["spec"].take(), before);
}

#[tokio::test]
async fn a_status_keeps_the_fields_of_a_third_manager() {
    let bench = Bench::new("status-third").await;
    job(&bench, json!({ "active": 3, "ready": 2 })).await;
    by(&bench, "agent", json!({ "terminating": 1 })).await;
    assert!(bench.applier.patch_status(&live(&bench).await, &json!({ "active": 2 })).await.unwrap());
    assert_eq!(live(&bench).await.status()["terminating"], 1);
}
