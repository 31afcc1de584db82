//! What a status counts.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::gpu_minutes;

fn minutes(gpus: &str, end: Option<&str>) -> Option<i64> {
    let job: Job = serde_json::from_value(json!({
        "spec": { "template": { "spec": { "containers": [
            { "name": "profiler", "resources": { "limits": { "nvidia.com/gpu": gpus } } }, { "name": "output-copier" }] } } },
        "status": { "startTime": "2026-01-01T00:00:00Z", "completionTime": end },
    }))
    .unwrap();
    let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
    gpu_minutes(&job, now)
}

#[test]
fn gpu_minutes_are_those_of_the_jobs_pod() {
    assert_eq!(minutes("8", Some("2026-01-01T00:10:01Z")), Some(81), "rounded up");
    assert_eq!(minutes("8", None), Some(480), "while it runs");
    assert_eq!(minutes("0", None), Some(0));
    assert_eq!(gpu_minutes(&Job::default(), Timestamp::UNIX_EPOCH), None, "not started");
}
