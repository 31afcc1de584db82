//! Features that cluster and configuration offer, as the rules of admission see them.

pub mod observe;

use std::collections::BTreeSet;

use controller_kit::settings::OperatorConfiguration;

use crate::admission::Features;

/// API groups by whose presence features are recognised.
const GROVE: &str = "grove.io";
const LWS: &str = "leaderworkerset.x-k8s.io";
const VOLCANO: &str = "scheduling.volcano.sh";
const KAI: &str = "scheduling.run.ai";
const INFERENCE: &str = "inference.networking.k8s.io";
/// Group and version with dynamic resource allocation.
const DRA: &str = "resource.k8s.io/v1";
/// Kinds by whose presence features are recognised: group and version, plural name.
pub(crate) const ISTIO: (&str, &str) = ("networking.istio.io/v1beta1", "destinationrules");
/// Version and plural name of PodSnapshots, in our own group.
pub(crate) const POD_SNAPSHOTS: (&str, &str) = ("v1alpha1", "podsnapshots");

/// APIs that the API server serves, as far as they are used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offer {
    /// All groups, each with its versions, as in `apiVersion`.
    pub versions: BTreeSet<String>,
    /// Istio's destination rules.
    pub istio: bool,
    /// PodSnapshots.
    pub pod_snapshots: bool,
}

/// The features that can be used: those that the cluster offers, unless the configuration switches them off.
#[must_use]
pub fn features(offer: &Offer, settings: &OperatorConfiguration) -> Features {
    let group = |name: &str| offer.versions.iter().any(|version| version.split('/').next() == Some(name));
    let unless_off = |switch: Option<bool>, there: bool| switch != Some(false) && there;
    let orchestrators = &settings.orchestrators;
    let mesh = settings.service_mesh.provider == "istio";
    Features {
        grove: unless_off(orchestrators.grove.enabled, group(GROVE)),
        lws: unless_off(orchestrators.lws.enabled, group(LWS)),
        kai_scheduler: unless_off(orchestrators.kai_scheduler.enabled, group(KAI)),
        volcano_scheduler: orchestrators.volcano_scheduler.enabled == Some(true) && group(VOLCANO),
        dra: unless_off(settings.dra.enabled, offer.versions.contains(DRA)),
        istio: unless_off(settings.service_mesh.enabled, mesh && offer.istio),
        inference_pool: group(INFERENCE),
        checkpoint: settings.checkpoint.enabled && offer.pod_snapshots,
        gpu_discovery: settings.gpu.discovery_enabled,
    }
}

/// Features that the configuration enables and the cluster does not offer (yet), as the keys that enable them.
#[must_use]
pub fn missing(offer: &Offer, settings: &OperatorConfiguration) -> Vec<&'static str> {
    let found = features(offer, settings);
    let orchestrators = &settings.orchestrators;
    let desired = [
        ("orchestrators.grove.enabled", orchestrators.grove.enabled, found.grove),
        ("orchestrators.lws.enabled", orchestrators.lws.enabled, found.lws),
        ("orchestrators.kaiScheduler.enabled", orchestrators.kai_scheduler.enabled, found.kai_scheduler),
        ("orchestrators.volcanoScheduler.enabled", orchestrators.volcano_scheduler.enabled, found.volcano_scheduler),
        ("dra.enabled", settings.dra.enabled, found.dra),
        ("serviceMesh.enabled", settings.service_mesh.enabled, found.istio),
        ("checkpoint.enabled", Some(settings.checkpoint.enabled), found.checkpoint),
    ];
    desired.into_iter().filter(|(_, desired, found)| *desired == Some(true) && !found).map(|(key, ..)| key).collect()
}

#[cfg(test)]
mod tests {
    use controller_kit::settings;

    use super::*;

    fn configured(body: &str) -> OperatorConfiguration {
        let head = format!("apiVersion: {}\nkind: {}\n", settings::API_VERSION, settings::KIND);
        settings::parse(&(head + body)).unwrap().0
    }

    fn full() -> Offer {
        let versions = ["grove.io/v1alpha1", DRA, "leaderworkerset.x-k8s.io/v1", "scheduling.volcano.sh/v1beta1"];
        let more = ["scheduling.run.ai/v2", "inference.networking.k8s.io/v1"];
        let versions = versions.iter().chain(&more).map(|&version| version.to_owned()).collect();
        Offer { versions, istio: true, pod_snapshots: true }
    }

    #[test]
    fn what_is_there_is_used_and_what_needs_a_word_waits_for_it() {
        let all = features(&full(), &configured(""));
        assert!(all.grove && all.lws && all.kai_scheduler && all.dra && all.inference_pool && all.gpu_discovery);
        assert!(!all.volcano_scheduler && !all.istio && !all.checkpoint, "only if configured");
        let none = features(&Offer::default(), &configured(""));
        assert_eq!(none, Features { gpu_discovery: true, ..Features::default() });
    }

    #[test]
    fn the_configuration_switches_on_and_off() {
        let off = configured(
            "orchestrators: {grove: {enabled: false}, lws: {enabled: false}, kaiScheduler: {enabled: false}}
dra: {enabled: false}
serviceMesh: {provider: istio, enabled: false}
gpu: {discoveryEnabled: false}
",
        );
        assert_eq!(features(&full(), &off), Features { inference_pool: true, ..Features::default() });
        let on = configured(
            "orchestrators: {volcanoScheduler: {enabled: true}}\nserviceMesh: {provider: istio}\ncheckpoint: {enabled: true}\n",
        );
        let all = features(&full(), &on);
        assert!(all.volcano_scheduler && all.istio && all.checkpoint);
    }

    #[test]
    fn what_is_configured_and_not_served_is_named_by_its_key() {
        let on = configured("orchestrators: {grove: {enabled: true}}\ncheckpoint: {enabled: true}\n");
        assert_eq!(missing(&Offer::default(), &on), ["orchestrators.grove.enabled", "checkpoint.enabled"]);
        assert_eq!(missing(&full(), &on), [""; 0]);
        assert!(!features(&Offer::default(), &on).grove, "a graph for Grove could not run");
    }
}
