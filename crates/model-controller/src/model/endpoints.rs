//! Reads endpoints from EndpointSlices.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
    sync::Arc,
};

use k8s_openapi::api::discovery::v1::{self, EndpointSlice};
use kube::ResourceExt;

use super::{
    fallback,
    fallback::WorkerGroup,
    model::{EnginePod, FoundEndpoints},
};
use crate::engine::Endpoint;

/// Label of a slice with the name of its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Data that the API server reports about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// Its addresses.
    addresses: Vec<IpAddr>,
    /// Whether it serves requests.
    answers: bool,
    /// Its group, if it is a prefill worker that others can cover.
    pub group: Option<WorkerGroup>,
}

impl PodFacts {
    /// Reads a pod.
    pub fn of(pod: &EnginePod) -> Self {
        let status = &pod.status;
        let ips = status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str());
        let addresses = ips.chain(status.pod_ip.as_deref()).filter_map(|ip| ip.parse().ok()).collect();
        let answers = rendering::answers_requests(pod.labels());
        Self { addresses, answers, group: fallback::group_of(pod) }
    }
}

/// Pods of a namespace by uid.
pub type PodsByUid = HashMap<Arc<str>, PodFacts>;

/// Whether the address of an endpoint is its pod's. EndpointSlices can be written by others, and name the pods of other
/// tenants.
pub fn is_verified(endpoint: &Endpoint, pods: &PodsByUid) -> bool {
    pods.get(&endpoint.pod).is_some_and(|pod| pod.addresses.contains(&endpoint.address))
}

fn endpoint(endpoint: &v1::Endpoint) -> Option<Endpoint> {
    let target = endpoint.target_ref.as_ref().filter(|target| target.kind.as_deref() == Some("Pod"))?;
    let address: IpAddr = endpoint.addresses.first()?.parse().ok()?;
    let conditions = endpoint.conditions.as_ref();
    if conditions.and_then(|conditions| conditions.terminating) == Some(true) {
        return None;
    }
    let pod_name: Arc<str> = target.name.as_deref()?.into();
    let pod = target.uid.as_deref().map_or_else(|| Arc::clone(&pod_name), Into::into);
    // The API defines absent readiness as ready.
    let ready = conditions.and_then(|conditions| conditions.ready).unwrap_or(true);
    Some(Endpoint { pod_name, pod, address, ready })
}

impl FoundEndpoints {
    /// Reads a slice. Only pods count; of several addresses, the first does.
    pub fn of_slice(slice: &EndpointSlice) -> Self {
        let service = slice.metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE_NAME)).cloned();
        let endpoints = slice.endpoints.iter().flatten().filter_map(endpoint).collect();
        Self { services: service.into_iter().collect(), endpoints }
    }

    /// Merges slices. A pod in several of them counts once; it is ready if one of them reports it, and has its lowest
    /// IPv4 address, or its lowest IPv6 address if it has no other. Pods that answer no requests do not count, and
    /// neither do endpoints whose address is not that of one of `pods`.
    pub fn of<'a>(slices: impl Iterator<Item = &'a Self>, all: &PodsByUid) -> Self {
        let counts =
            |endpoint: &&Endpoint| is_verified(endpoint, all) && all.get(&endpoint.pod).is_some_and(|pod| pod.answers);
        let mut services = BTreeSet::new();
        let mut pods: BTreeMap<Arc<str>, Endpoint> = BTreeMap::new();
        for slice in slices {
            services.extend(slice.services.iter().cloned());
            for endpoint in slice.endpoints.iter().filter(counts) {
                let known = pods.entry(Arc::clone(&endpoint.pod)).or_insert_with(|| endpoint.clone());
                known.ready |= endpoint.ready;
                // V4 comes before V6 in the order of addresses.
                known.address = known.address.min(endpoint.address);
            }
        }
        let mut endpoints: Vec<Endpoint> = pods.into_values().collect();
        endpoints.sort();
        Self { services, endpoints }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn slice(service: Option<&str>, endpoints: Value) -> FoundEndpoints {
        let labels = service.map(|service| json!({ SERVICE_NAME: service }));
        let slice =
            json!({ "metadata": { "name": "s", "labels": labels }, "addressType": "IPv4", "endpoints": endpoints });
        FoundEndpoints::of_slice(&serde_json::from_value(slice).unwrap())
    }

    fn pod(name: &str, address: &str, conditions: Value) -> Value {
        let target = json!({ "kind": "Pod", "name": name, "uid": format!("uid-{name}") });
        json!({ "addresses": [address], "conditions": conditions, "targetRef": target })
    }

    /// Pods as the API server reports them.
    fn pods(all: &[(&str, &[&str], Value)]) -> PodsByUid {
        let facts = all.iter().map(|(uid, addresses, labels)| {
            let ips: Vec<Value> = addresses.iter().map(|ip| json!({ "ip": ip })).collect();
            let pod = json!({ "metadata": { "labels": labels }, "status": { "podIP": addresses[0], "podIPs": ips } });
            ((*uid).into(), PodFacts::of(&serde_json::from_value(pod).unwrap()))
        });
        facts.collect()
    }

    fn shown(found: &FoundEndpoints) -> Vec<String> {
        found.endpoints.iter().map(|e| format!("{} {} {}", e.pod_name, e.url(), e.ready)).collect()
    }

    #[test]
    fn pods_become_endpoints_and_nothing_else_does() {
        let found = FoundEndpoints::of(
            [
                slice(
                    Some("b"),
                    json!([
                        pod("w-2", "10.0.0.2", json!({ "ready": false })),
                        pod("w-1", "10.0.0.1", json!({ "ready": true })),
                        pod("w-3", "10.0.0.3", json!({})),
                        pod("leaving", "10.0.0.4", json!({ "ready": false, "serving": true, "terminating": true })),
                        { "addresses": ["10.0.0.5"], "targetRef": { "kind": "Node", "name": "n" } },
                        { "addresses": ["10.0.0.6"] },
                    ]),
                ),
                slice(None, json!([])),
                slice(Some("a"), json!([])),
            ]
            .iter(),
            &pods(&[
                ("uid-w-1", &["10.0.0.1"], json!({})),
                ("uid-w-2", &["10.0.0.2"], json!({})),
                ("uid-w-3", &["10.0.0.3"], json!({})),
                ("uid-leaving", &["10.0.0.4"], json!({})),
            ]),
        );
        assert_eq!(
            shown(&found),
            ["w-1 http://10.0.0.1:9090 true", "w-2 http://10.0.0.2:9090 false", "w-3 http://10.0.0.3:9090 true"]
        );
        assert_eq!(found.services.into_iter().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn a_pod_in_several_slices_is_one_endpoint_in_whatever_order_they_come() {
        let slices = [
            slice(Some("s"), json!([pod("w", "fd00::1", json!({ "ready": false }))])),
            slice(Some("s"), json!([pod("w", "10.0.0.9", json!({ "ready": true }))])),
            slice(Some("t"), json!([pod("w", "10.0.0.8", json!({ "ready": false }))])),
        ];
        let expected = ["w http://10.0.0.8:9090 true"];
        let pods = pods(&[("uid-w", &["10.0.0.9", "10.0.0.8", "fd00::1"], json!({}))]);
        assert_eq!(shown(&FoundEndpoints::of(slices.iter(), &pods)), expected);
        assert_eq!(shown(&FoundEndpoints::of(slices.iter().rev(), &pods)), expected);
        assert_eq!(shown(&FoundEndpoints::of(slices[..1].iter(), &pods)), ["w http://[fd00::1]:9090 false"]);
    }

    #[test]
    fn a_pod_of_the_same_name_with_another_uid_is_another_endpoint() {
        let mut reborn = pod("w-0", "10.0.0.1", json!({ "ready": true }));
        reborn["targetRef"]["uid"] = json!("other");
        let pods = pods(&[("uid-w-0", &["10.0.0.1"], json!({})), ("other", &["10.0.0.1"], json!({}))]);
        let one = [slice(None, json!([pod("w-0", "10.0.0.1", json!({ "ready": true }))]))];
        let one = FoundEndpoints::of(one.iter(), &pods);
        let other = FoundEndpoints::of([slice(None, json!([reborn]))].iter(), &pods);
        assert_ne!(one.endpoints[0].pod, other.endpoints[0].pod);
    }

    /// Defect: an adapter on a replica over several nodes was never ready, because followers serve no requests.
    #[test]
    fn pods_that_follow_a_leader_are_no_endpoints() {
        let all = [slice(
            None,
            json!([
                pod("leader", "10.0.0.1", json!({ "ready": true })),
                pod("follower", "10.0.0.2", json!({ "ready": true })),
                pod("of-grove", "10.0.0.3", json!({ "ready": true })),
            ]),
        )];
        let of_grove =
            json!({ "nvidia.com/dynamo-component": "Decode", "grove.io/podclique": "g-0-decode-0-decode-wkr" });
        let pods = pods(&[
            ("uid-leader", &["10.0.0.1"], json!({ "role": "leader" })),
            ("uid-follower", &["10.0.0.2"], json!({ "role": "worker" })),
            ("uid-of-grove", &["10.0.0.3"], of_grove),
        ]);
        assert_eq!(shown(&FoundEndpoints::of(all.iter(), &pods)), ["leader http://10.0.0.1:9090 true"]);
    }

    /// Defect: with rights to EndpointSlices, a tenant could load and unload adapters in the engines of other tenants.
    #[test]
    fn an_address_that_is_not_the_pods_is_no_endpoint() {
        let all = [slice(
            None,
            json!([
                pod("mine", "10.0.0.1", json!({ "ready": true })),
                pod("mine", "10.9.9.9", json!({ "ready": true })),
                pod("unknown", "10.8.8.8", json!({ "ready": true })),
            ]),
        )];
        let pods = pods(&[("uid-mine", &["10.0.0.1"], json!({}))]);
        assert_eq!(shown(&FoundEndpoints::of(all.iter(), &pods)), ["mine http://10.0.0.1:9090 true"]);
        let verified = all[0].endpoints.iter().map(|endpoint| is_verified(endpoint, &pods)).collect::<Vec<_>>();
        assert_eq!(verified, [true, false, false]);
    }
}
