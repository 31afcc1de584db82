//! Mistakes that only show when replicas span nodes.

use crate::{Invalid, ValidatedComponent};
use api_types::names;
use api_types::v1beta1::{ComponentType, MAIN_CONTAINER};

/// Most characters of a host name, which is the name of the pod.
const HOST_NAME_MAX: usize = 63;

/// Looks for every mistake that keeps a LeaderWorkerSet from running the component.
///
/// # Errors
/// All of them at once.
pub fn validate_leader_worker_set(valid: &ValidatedComponent<'_>) -> Result<(), Vec<Invalid>> {
    let mistakes: Vec<Invalid> = host_name_too_long(valid).into_iter().chain(nothing_to_run(valid)).collect();
    if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
}

/// A pod is called after its set, its group and its place in it; a longer name is refused for every pod.
fn host_name_too_long(valid: &ValidatedComponent<'_>) -> Option<Invalid> {
    let (groups, pods) = (valid.spec().wanted_replicas() - 1, valid.spec().node_count() - 1);
    let longest = format!("{}-{}-{}", names::leader_worker_set(valid.name), groups.max(0), pods);
    (longest.len() > HOST_NAME_MAX).then(|| Invalid {
        field: "metadata.name".to_owned(),
        value: valid.name.to_owned(),
        problem: format!("gives pods such as {longest}, whose host names have more than {HOST_NAME_MAX} characters"),
        remedy: "shorten the name of the component or of its graph".to_owned(),
    })
}

/// A shell that is given nothing to do ends at once. Frontends bring their own arguments along.
fn nothing_to_run(valid: &ValidatedComponent<'_>) -> Option<Invalid> {
    let is_empty = |words: &Option<Vec<String>>| words.as_ref().is_none_or(Vec::is_empty);
    let nothing = is_empty(&valid.main.command) && is_empty(&valid.main.args);
    (nothing && valid.spec().type_ != Some(ComponentType::Frontend)).then(|| Invalid {
        field: format!("spec.podTemplate.spec.containers[{MAIN_CONTAINER}].args"),
        value: String::new(),
        problem: "is empty, and so is command: the nodes have nothing to run".to_owned(),
        remedy: "give the command line that starts the engine".to_owned(),
    })
}
