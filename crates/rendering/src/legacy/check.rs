//! What the user of a component of the legacy API has to say.

use api_types::{v1beta1::ComponentSpec, violations::Violation};
use k8s_openapi::api::core::v1::Container;

/// Checks that the source of an image has the form `name:version`.
///
/// # Errors
/// It has not; the field is that of a graph and of a component alike.
pub fn check_source(source: &str) -> Result<(), Violation> {
    if source.split_once(':').is_some_and(|(name, version)| !name.is_empty() && !version.is_empty()) {
        return Ok(());
    }
    Err(Violation::invalid(
        "spec.dynamoComponent",
        source,
        "is not of the form name:version",
        "write what the API store knows, such as frontend:v1",
    ))
}

/// Checks that something says what a component runs. `who` is what its user calls it: a component or a service.
///
/// # Errors
/// Nothing says it; the field is below the component.
pub fn check_told(component: &ComponentSpec, who: &str) -> Result<(), Violation> {
    if is_told_what_to_run(component) {
        return Ok(());
    }
    Err(Violation::required(
        "dynamoTag",
        format!("is missing, and nothing else says what the {who} runs"),
        "set dynamoTag, componentType, or command or args in extraPodSpec.mainContainer",
    ))
}

/// Whether something says what `main` runs: the user, or the component's type.
fn is_told_what_to_run(component: &ComponentSpec) -> bool {
    let main = component.main_container();
    let given = |list: fn(&Container) -> &Option<Vec<String>>| {
        main.and_then(|main| list(main).as_ref()).is_some_and(|words| !words.is_empty())
    };
    component.type_.is_some() || given(|main| &main.args) || given(|main| &main.command)
}
