//! Violations that only show when replicas span nodes.

use api_types::{
    names,
    v1beta1::{ComponentType, MAIN_CONTAINER},
    violations::Violation,
};

use crate::ValidatedComponent;

/// Most characters of the name of a StatefulSet. Its pods carry a label with this name, a hyphen and a hash of at most
/// ten characters; names of pods, which are host names too, add less. (kubernetes/kubernetes#64023,
/// kubernetes-sigs/lws#410)
const STATEFUL_SET_MAX: usize = names::LABEL_MAX - 11;

/// Looks for every violation that keeps a LeaderWorkerSet from running the component. One that `serves` has proved its
/// name: hashes of fewer than ten characters leave room for some more.
///
/// # Errors
/// All of them at once.
pub fn validate_leader_worker_set(valid: &ValidatedComponent<'_>, serves: bool) -> Result<(), Vec<Violation>> {
    let name = name_too_long(valid).filter(|_| !serves);
    let violations: Vec<Violation> = name.into_iter().chain(nothing_to_run(valid)).collect();
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

/// The longest name of a StatefulSet that a LeaderWorkerSet of this component needs, and how many characters it has too
/// many; `None` if it fits.
pub fn excess_of_names(component_deployment: &str, replicas: i64) -> Option<(String, usize)> {
    let longest = format!("{}-{}", names::leader_worker_set(component_deployment), (replicas - 1).max(0));
    let excess = longest.len().checked_sub(STATEFUL_SET_MAX).filter(|excess| *excess > 0)?;
    Some((longest, excess))
}

/// The workers of a group are a StatefulSet that is called after the set and the group. One with a longer name is made,
/// but each of its pods is refused.
fn name_too_long(valid: &ValidatedComponent<'_>) -> Option<Violation> {
    let (longest, excess) = excess_of_names(valid.name, valid.spec().wanted_replicas().into())?;
    Some(Violation::invalid(
        "metadata.name",
        valid.name,
        format!(
            "gives StatefulSets such as {longest}, and with more than {STATEFUL_SET_MAX} characters in its name none of their \
             pods can be created"
        ),
        format!("shorten the name of the component or of its graph, by {excess} at least"),
    ))
}

/// A shell that is given nothing to do ends at once. Frontends bring their own arguments along.
fn nothing_to_run(valid: &ValidatedComponent<'_>) -> Option<Violation> {
    let is_empty = |words: &Option<Vec<String>>| words.as_ref().is_none_or(Vec::is_empty);
    let nothing = is_empty(&valid.main.command) && is_empty(&valid.main.args);
    (nothing && valid.spec().type_ != Some(ComponentType::Frontend)).then(|| {
        Violation::required(
            format!("spec.podTemplate.spec.containers[{MAIN_CONTAINER}].args"),
            "is empty, and so is command: the nodes have nothing to run",
            "give the command line that starts the engine",
        )
    })
}
