//! Parts of a live PodCliqueSet that stay the same whenever it is rendered anew, and the target revision of a graph on
//! Grove.

use api_types::{
    annotations,
    grove::{PodCliqueSet, PodCliqueTemplate},
    labels,
    names::RevisionSuffix,
    v1beta1::{ComponentSpec, ComponentType, DynamoGraphDeploymentSpec, KvTransferPolicy},
};
use controller_kit::apply::includes;
use k8s_openapi::api::core::v1::LocalObjectReference;
use kube::ResourceExt;
use rendering::is_operators_program;
use serde_json::{Value, json};

use super::{render, restart_states};
use crate::graph::{
    grove::{cliques_of, revision_of},
    model::{GraphObserved, ValidGraph},
    plan::revision,
};

/// The first clique of a component.
pub(super) fn clique_of<'a>(set: &'a PodCliqueSet, component: &str) -> Option<&'a PodCliqueTemplate> {
    cliques_of(set, component).next()
}

/// Takes over what of a live PodCliqueSet stays: its order, its replicas, and pods that would change for nothing that
/// the user did. `serves` says of a component whether its pods serve.
pub(super) fn keep(
    rendered: &mut PodCliqueSet,
    live: &PodCliqueSet,
    spec: &DynamoGraphDeploymentSpec,
    serves: impl Fn(&ComponentSpec) -> bool,
) {
    let (template, old) = (&mut rendered.spec.template, &live.spec.template);
    order_like(&mut template.cliques, &old.cliques, |clique| &clique.name);
    order_like(&mut template.pod_clique_scaling_groups, &old.pod_clique_scaling_groups, |group| &group.name);
    order_like(&mut template.resource_claim_templates, &old.resource_claim_templates, |claim| &claim["name"]);
    keep_constraint(&mut template.topology_constraint, old.topology_constraint.as_ref());
    for group in &mut template.pod_clique_scaling_groups {
        let Some(old) = old.pod_clique_scaling_groups.iter().find(|old| old.name == group.name) else { continue };
        group.replicas = old.replicas;
        keep_constraint(&mut group.topology_constraint, old.topology_constraint.as_ref());
    }
    for clique in &mut template.cliques {
        let Some(old) = old.cliques.iter().find(|old| old.name == clique.name) else { continue };
        let in_group = |group: &api_types::grove::ScalingGroupConfig| group.clique_names.contains(&clique.name);
        if !template.pod_clique_scaling_groups.iter().any(in_group) {
            clique.spec.replicas = old.spec.replicas;
        }
        keep_constraint(&mut clique.topology_constraint, old.topology_constraint.as_ref());
        let component = clique.labels.get(labels::COMPONENT);
        let declared = spec.components.iter().find(|declared| Some(&declared.name) == component);
        if let Some(declared) = declared {
            keep_pods(clique, old, declared, serves(declared));
        }
    }
}

/// Keeps the programs that an operator wrote into live pods, for users who did not change anything: two operators,
/// and two versions of one, write different programs for the same.
pub(super) fn keep_programs(rendered: &mut PodCliqueSet, live: &PodCliqueSet) {
    for clique in &mut rendered.spec.template.cliques {
        let Some(old) = live.spec.template.cliques.iter().find(|old| old.name == clique.name) else { continue };
        for container in &mut clique.spec.pod_spec.containers {
            let old = old.spec.pod_spec.containers.iter().find(|old| old.name == container.name);
            let words = container.args.iter_mut().flatten();
            for (word, old) in words.zip(old.into_iter().flat_map(|old| old.args.iter().flatten())) {
                if is_operators_program(word) && is_operators_program(old) {
                    word.clone_from(old);
                }
            }
        }
    }
}

/// The domains of the policy's cluster topology of live workers; none if theirs is another one, or lacks the
/// domain in which caches are exchanged.
pub(super) fn known_domains(live: &PodCliqueSet, policy: &KvTransferPolicy) -> Option<Vec<String>> {
    let topology = policy.cluster_topology_name.as_ref()?;
    let mut cliques = live.spec.template.cliques.iter();
    let reported = cliques.find(|clique| clique.annotations.get(annotations::TOPOLOGY_NAME) == Some(topology))?;
    rendering::topology_domains(&reported.spec.pod_spec).filter(|known| known.contains(&policy.domain))
}

/// Sorts what is desired as it is live; what is new comes last.
fn order_like<T, N: PartialEq + ?Sized>(desired: &mut [T], live: &[T], name: impl Fn(&T) -> &N) {
    desired.sort_by_key(|item| live.iter().position(|old| name(old) == name(item)).unwrap_or(usize::MAX));
}

/// A constraint in the form of an older Grove, with a domain and without a topology, has to get its topology first.
/// Grove refuses both changes at once.
fn keep_constraint(desired: &mut Option<Value>, live: Option<&Value>) {
    let (Some(desired), Some(live)) = (desired, live) else { return };
    let given = |constraint: &Value, field: &str| constraint[field].as_str().is_some_and(|text| !text.is_empty());
    if !given(desired, "topologyName") || given(live, "topologyName") || !given(live, "packDomain") {
        return;
    }
    let name = desired["topologyName"].clone();
    *desired = live.clone();
    desired["topologyName"] = name;
}

/// Keeps the pods of a clique as they are if nothing but discovered pull secrets would change, or what another operator
/// left out.
///
/// A Secret that appears or vanishes must not replace running pods; pods that do not serve may lack just that Secret.
fn keep_pods(clique: &mut PodCliqueTemplate, live: &PodCliqueTemplate, declared: &ComponentSpec, serves: bool) {
    let mut kept = clique.clone();
    let secrets = &live.spec.pod_spec.image_pull_secrets;
    let has = |secret: &LocalObjectReference| secrets.iter().flatten().any(|live| live.name == secret.name);
    let nothing_new = clique.spec.pod_spec.image_pull_secrets.iter().flatten().all(has);
    let mut declared_secrets = declared.pod_spec().into_iter().flat_map(|pod| pod.image_pull_secrets.iter().flatten());
    if declared_secrets.all(has) && (nothing_new || serves) {
        kept.spec.pod_spec.image_pull_secrets.clone_from(secrets);
    }
    // The upstream operator leaves it out on Grove. Those pods get it when they are replaced for another reason.
    let own =
        declared.type_ == Some(ComponentType::Epp) && declared.pod_annotation(annotations::ISTIO_INJECT).is_none();
    if own && !live.annotations.contains_key(annotations::ISTIO_INJECT) {
        kept.annotations.remove(annotations::ISTIO_INJECT);
    }
    // So for the account of planners, which it leaves to their users there.
    if declared.type_ == Some(ComponentType::Planner) {
        let account = &live.spec.pod_spec.service_account_name;
        let declared = declared.pod_spec().and_then(|pod| pod.service_account_name.as_ref());
        if account.is_some() && account.as_ref() == declared {
            kept.spec.pod_spec.service_account_name.clone_from(account);
        }
    }
    if runs_the_same(&kept, live) {
        *clique = kept;
    }
}

/// Whether the pods of two cliques are the same, in whatever notation.
pub(super) fn runs_the_same(one: &PodCliqueTemplate, other: &PodCliqueTemplate) -> bool {
    let pods = |clique: &PodCliqueTemplate| json!({ "labels": clique.labels, "annotations": clique.annotations, "spec": clique.spec.pod_spec });
    let (one, other) = (pods(one), pods(other));
    includes(&one, &other) && includes(&other, &one)
}

/// The revision that the spec asks for. All workers of a graph change revision together. Here there is only one revision
/// at a time: Grove replaces the pods of the last one by those of the next, within the same cliques.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroveTarget {
    /// Its suffix; `None` if the graph has no workers, or workers older than revisions.
    pub suffix: Option<RevisionSuffix>,
    /// Its fingerprint.
    pub fingerprint: String,
    /// The user has changed nothing about the workers since they were made.
    pub unchanged: bool,
}

/// Finds the revision that the spec asks for.
///
/// 1. What is live has our fingerprint of the spec: its revision stays.
/// 2. What is live was made by another operator, or under another recipe, and holds what the spec asks for: its
///    revision stays, so that taking over replaces no pod.
/// 3. Else it is a new one.
pub fn target(graph: &ValidGraph<'_>, observed: &GraphObserved) -> GroveTarget {
    let fingerprint = revision::fingerprint(graph);
    let new = |suffix| GroveTarget { suffix, fingerprint: fingerprint.clone(), unchanged: false };
    if graph.workers().next().is_none() {
        return new(None);
    }
    let Some(set) = observed.grove.set() else { return new(Some(RevisionSuffix::of(&fingerprint, 0))) };
    let suffix = suffix_of(graph, set);
    let same = GroveTarget { suffix: suffix.clone(), unchanged: true, ..new(None) };
    let stays = match set.annotations().get(annotations::REVISION_FINGERPRINT) {
        Some(known) if *known == fingerprint => true,
        Some(known) if revision::is_current_recipe(known) => false,
        _ => holds(graph, observed, set, &GroveTarget { unchanged: is_as_reported(observed), ..same.clone() }),
    };
    if stays {
        return same;
    }
    let mut free = (0..).map(|attempt| RevisionSuffix::of(&fingerprint, attempt));
    new(free.find(|free| Some(free) != suffix.as_ref()))
}

/// Whether the status is about the present spec: then an operator has carried it out, and programs that it wrote into
/// pods are those for this spec.
fn is_as_reported(observed: &GraphObserved) -> bool {
    let reported = observed.graph.status.as_ref().and_then(|status| status.observed_generation);
    reported.is_some() && reported == observed.graph.metadata.generation
}

/// The revision of the live workers; `None` if they are older than revisions, or of several.
pub fn suffix_of(graph: &ValidGraph<'_>, set: &PodCliqueSet) -> Option<RevisionSuffix> {
    let mut suffixes = graph.workers().map(|worker| clique_of(set, &worker.name).and_then(revision_of));
    let first = suffixes.next()??;
    suffixes.all(|suffix| suffix.as_ref() == Some(&first)).then_some(first)
}

/// Whether all live workers run exactly what the spec asks for.
fn holds(graph: &ValidGraph<'_>, observed: &GraphObserved, set: &PodCliqueSet, target: &GroveTarget) -> bool {
    let states = restart_states(graph, observed);
    let marks: Vec<_> = states.iter().map(|state| state.mark).collect();
    let Ok(Some(rendered)) = render(graph, observed, target, &marks) else { return false };
    graph.workers().all(|worker| {
        let desired = cliques_of(&rendered.set, &worker.name);
        let mut all = desired.peekable();
        all.peek().is_some()
            && all.all(|desired| {
                let found = set.spec.template.cliques.iter().find(|found| found.name == desired.name);
                found.is_some_and(|found| runs_the_same(desired, found))
            })
    })
}
