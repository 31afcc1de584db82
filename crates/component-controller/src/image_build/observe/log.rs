//! Log of a failed build.

use api_types::labels;
use controller_kit::{request::read, store::Packed};
use futures::AsyncReadExt;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, LogParams},
};

use crate::image_build::{job::BUILDER, model::Log};

/// Last lines and bytes of a log that are shown.
const LINES: i64 = 20;
const BYTES: usize = 2000;

/// Bytes of a log that are read at a time.
const CHUNK: usize = 8 * 1024;

/// The end of the log of a Job's newest pod, if it can be read.
pub(super) async fn of_failed(client: &Client, namespace: &str, job: &str) -> Option<Log> {
    let pods: Api<Packed<Pod>> = Api::namespaced(client.clone(), namespace);
    let selector = ListParams::default().labels(&format!("{}={job}", labels::JOB_NAME));
    let found = read(|| format!("list pods of Job {namespace}/{job}"), pods.list(&selector)).await.ok()?;
    let newest = Packed::readable(found.items).into_iter().max_by_key(|pod| pod.metadata.creation_timestamp.clone())?;
    let (name, container) = (newest.name_any(), failed_container(&newest).to_owned());
    let parameters = LogParams { container: Some(container.clone()), tail_lines: Some(LINES), ..LogParams::default() };
    let logs = Api::namespaced(client.clone(), namespace);
    let log = read(|| format!("read the log of pod {namespace}/{name}"), end_of_log(&logs, &name, &parameters));
    let text = log.await.ok()?;
    Some(Log { container, text: end_of(text.trim_end(), BYTES).to_owned() })
}

/// The end of a log, whose lines may be of any length.
async fn end_of_log(pods: &Api<Pod>, name: &str, parameters: &LogParams) -> Result<String, kube::Error> {
    let mut log = std::pin::pin!(pods.log_stream(name, parameters).await?);
    let (mut end, mut chunk) = (Vec::new(), vec![0; CHUNK]);
    // What cannot be read ends it: a part is better than nothing.
    while let Ok(length @ 1..) = log.read(&mut chunk).await {
        end.extend_from_slice(&chunk[..length]);
        end.drain(..end.len().saturating_sub(CHUNK));
    }
    Ok(String::from_utf8_lossy(&end).into_owned())
}

/// The last bytes of a text, so many at most, without a part of a character.
fn end_of(text: &str, bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(bytes))..]
}

/// The container that failed. Containers before it succeeded, and containers after it never started.
fn failed_container(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    let before = status.and_then(|status| status.init_container_statuses.as_ref()).into_iter().flatten();
    let all = before.chain(status.and_then(|status| status.container_statuses.as_ref()).into_iter().flatten());
    let failed = |container: &&ContainerStatus| {
        let ended = container.state.as_ref().and_then(|state| state.terminated.as_ref());
        ended.is_some_and(|ended| ended.exit_code != 0)
    };
    all.into_iter().find(failed).map_or(BUILDER, |container| container.name.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_end_of_a_log_has_whole_characters() {
        for (bytes, end) in [(0, ""), (1, ""), (2, "é"), (3, "é"), (4, "éé"), (9, "aéé")] {
            assert_eq!(end_of("aéé", bytes), end, "{bytes}");
        }
    }

    #[test]
    fn the_container_that_failed_has_the_log() {
        let container = |name: &str, state: Value| json!({ "name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state });
        let ended = |code: i32| json!({ "terminated": { "exitCode": code } });
        let later = || json!({ "waiting": { "reason": "PodInitializing" } });
        let named = |download: Value, login: Value, build: Value| {
            let before =
                [container("dynamocomponent-downloader", download), container("gcp-init-docker-config", login)];
            let status = json!({ "initContainerStatuses": before, "containerStatuses": [container("builder", build)] });
            let pod: Pod = serde_json::from_value(json!({ "metadata": {}, "status": status })).unwrap();
            failed_container(&pod).to_owned()
        };
        assert_eq!(named(ended(22), later(), later()), "dynamocomponent-downloader");
        assert_eq!(named(ended(0), ended(1), later()), "gcp-init-docker-config");
        assert_eq!(named(ended(0), ended(0), ended(42)), "builder");
        assert_eq!(named(ended(0), ended(0), json!({ "running": {} })), "builder", "none has failed");
        assert_eq!(failed_container(&Pod::default()), "builder");
    }
}
