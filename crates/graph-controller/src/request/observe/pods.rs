//! Pods that no cache holds, looked at while something is not as it should be.

use std::collections::BTreeSet;

use api_types::v1beta1::DynamoGraphDeployment;
use api_types::{labels, names};
use controller_kit::apply::{Error, ObjectId, timed};
use controller_kit::store::{Packed, Store};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use workload::JobEnd;

use crate::request::cost::{self, Trials};
use crate::request::observe::Observed;

/// What a container waits for that only somebody can change.
const HINDRANCES: [&str; 6] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
];

/// Why the profiler's pod does not start, or how it failed.
pub(super) async fn look_at_profiler(client: &Client, observed: &mut Observed) -> Result<(), Error> {
    let Some(job) = observed.job.as_ref() else { return Ok(()) };
    let ready = job.status.as_ref().and_then(|status| status.ready).unwrap_or_default() > 0;
    if ready || JobEnd::Complete.of(job).is_some() {
        return Ok(());
    }
    let selector = format!("{}={}", labels::JOB_NAME, names::profiling_job(&observed.name));
    let pods = list(client, observed, &selector).await?;
    observed.hindrance = pods.iter().flat_map(|pod| statuses(pod)).find_map(hindrance);
    observed.pod_failures = pods.iter().flat_map(|pod| statuses(pod)).filter_map(failure).collect();
    Ok(())
}

/// Graphs that the profiler has started to measure them, which are the request's without being controlled by it, and their pods.
pub(super) async fn look_at_trials(
    client: &Client,
    graphs: &Store<Packed<DynamoGraphDeployment>>,
    observed: &mut Observed,
) -> Result<(), Error> {
    let all = graphs.all();
    let of_request = |graph: &Packed<DynamoGraphDeployment>| {
        let owners = graph.owner_references().iter();
        graph.namespace().as_deref() == Some(&observed.namespace) && owners.into_iter().any(|o| o.uid == observed.uid)
    };
    let running: BTreeSet<String> =
        all.iter().filter(|graph| of_request(graph)).map(|graph| graph.name_any()).collect();
    let remembered = observed.status().trial_graphs;
    let names: BTreeSet<String> =
        running.iter().chain(cost::known(remembered.as_ref())).map(|name| names::label_value(name)).collect();
    if names.is_empty() {
        return Ok(());
    }
    let selector = format!("{} in ({})", labels::GRAPH, names.into_iter().collect::<Vec<_>>().join(","));
    let pods = list(client, observed, &selector).await?;
    observed.trials = Some(Trials::of(running, remembered.as_ref(), &pods));
    Ok(())
}

/// Which images the graph's pods cannot get, while the graph is not ready.
pub(super) async fn look_at_graph(client: &Client, observed: &mut Observed) -> Result<(), Error> {
    use api_types::v1beta1::GraphState::Successful;
    let Some(graph) = &observed.graph else { return Ok(()) };
    if graph.status.as_ref().is_some_and(|status| status.state == Successful) {
        return Ok(());
    }
    let selector = format!("{}={}", labels::GRAPH, names::label_value(&graph.name_any()));
    let pods = list(client, observed, &selector).await?;
    let mut failures: Vec<String> = pods.iter().flat_map(|pod| statuses(pod)).filter_map(pull_failure).collect();
    failures.sort();
    failures.dedup();
    observed.pull_failures = failures;
    Ok(())
}

async fn list(client: &Client, observed: &Observed, selector: &str) -> Result<Vec<Pod>, Error> {
    let api: Api<Packed<Pod>> = Api::namespaced(client.clone(), &observed.namespace);
    let object = ObjectId::named::<Pod>(&observed.namespace, selector);
    let pods = timed("list", &object, api.list(&ListParams::default().labels(selector))).await?;
    Ok(Packed::readable(pods.items))
}

fn statuses(pod: &Pod) -> Vec<&ContainerStatus> {
    let status = pod.status.as_ref();
    let init = status.and_then(|status| status.init_container_statuses.as_ref()).into_iter().flatten();
    init.chain(status.and_then(|status| status.container_statuses.as_ref()).into_iter().flatten()).collect()
}

fn hindrance(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref().filter(|reason| HINDRANCES.contains(reason))?;
    let words = waiting.message.as_deref().unwrap_or_default();
    Some(format!("container {} cannot start: {reason}: {words}", container.name))
}

fn failure(container: &ContainerStatus) -> Option<String> {
    let ended = container.state.as_ref()?.terminated.as_ref().filter(|ended| ended.exit_code != 0)?;
    let reason = ended.reason.as_deref().unwrap_or("Error");
    let words = ended.message.as_deref().map(|words| format!(": {}", words.trim())).unwrap_or_default();
    Some(format!("container {} ended with {} ({reason}){words}", container.name, ended.exit_code))
}

fn pull_failure(container: &ContainerStatus) -> Option<String> {
    let reason = container.state.as_ref()?.waiting.as_ref()?.reason.as_deref()?;
    ["ErrImagePull", "ImagePullBackOff"]
        .contains(&reason)
        .then(|| format!("{reason}: image {} of container {}", container.image, container.name))
}
