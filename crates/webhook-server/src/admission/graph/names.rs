//! Grove puts the names of a graph and of what is below it into one name, which must not become too long.

use api_types::{names, violations};

use super::super::{field::Findings, view::Component};

pub(super) fn check(graph: &str, components: &[Component<'_>], out: &mut Findings) {
    let longest = components.iter().map(below).max().unwrap_or_default();
    let set = names::pod_clique_set(graph, longest).len();
    for component in components {
        let length = set + below(component);
        if length > names::GROVE_COMBINED_MAX {
            let detail = format!("{}; {}", violations::combined_name(length), violations::COMBINED_NAME_REMEDY);
            out.invalid(&component.field("name"), detail);
        }
    }
}

/// What a component adds to the name of the set.
fn below(component: &Component<'_>) -> usize {
    let name = component.name().to_lowercase().len();
    if component.uses_scaling_group() { 2 * name + role_suffix(component) } else { name }
}

/// The longest suffix by which Grove's cliques of one component are told apart.
fn role_suffix(component: &Component<'_>) -> usize {
    let numbered = |last: i64| "-gms-".len() + last.max(0).to_string().len();
    match (component.is_multinode(), component.shares_memory_between_pods()) {
        (true, true) => numbered(component.nodes() - 1),
        (true, false) => "-ldr".len(),
        (false, true) => numbered(0),
        (false, false) => 0,
    }
}
