//! Rules for a component, whether in a graph or on its own.

mod checkpoint;
mod endpoint_picker;
mod image;
mod power;
mod template;
mod update;

use api_types::{v1beta1::ComponentSpec, violations};
pub(super) use checkpoint::warn;
pub(super) use power::{power_limit, power_limit_update};
pub(super) use template::discovery_backend;
pub(super) use update::{Change, check_update};

use super::{
    Facts,
    field::Findings,
    provider_override,
    view::{Component, Pathway, Provider},
};

/// What surrounds a component.
pub(super) struct Surroundings<'a> {
    pub(super) facts: &'a Facts,
    pub(super) owner: Owner<'a>,
    /// `spec.backendFramework`.
    pub(super) framework: &'a str,
    /// Whether its image is built from an archive, unless it names one: the API of 2025.
    pub(super) is_built: bool,
}

/// What a component belongs to.
pub(super) enum Owner<'a> {
    /// A graph, run by a program.
    Graph { pathway: Pathway, provider: Provider<'a> },
    /// Nothing: it stands on its own.
    Nobody,
}

impl Owner<'_> {
    /// Why fields that only Grove serves are not possible, if they are not.
    fn not_grove(&self) -> Option<&str> {
        match self {
            Self::Graph { pathway, .. } => pathway.reason(),
            Self::Nobody => Some(violations::ONLY_ON_GROVE),
        }
    }
}

/// Checks what the controllers check too. A component that is unreadable has other violations.
fn by_itself(component: &Component<'_>, out: &mut Findings) {
    let spec: Option<ComponentSpec> = component.node().parse();
    for violation in spec.iter().flat_map(rendering::check_component) {
        out.add(component.node(), violation);
    }
}

/// Checks a component as it is, in the order of its fields.
pub(super) fn check(component: &Component<'_>, around: &Surroundings<'_>, out: &mut Findings) {
    for (fragment, scope) in provider_override::of_component(component) {
        match around.owner {
            Owner::Graph { provider, .. } => provider_override::check(&fragment, scope, provider, out),
            Owner::Nobody => out.forbidden(&fragment, "is for components of a graph; remove it"),
        }
    }
    let min_available = component.field("minAvailable");
    if let Some(reason) = around.owner.not_grove().filter(|_| min_available.is_set()) {
        out.forbidden(&min_available, reason);
    }
    by_itself(component, out);
    endpoint_picker::check(component, around, out);
    template::check(component, around, out);
    let forced = component.fields(&["experimental", "grove", "forceScalingGroup"]);
    if let Some(reason) = around.owner.not_grove().filter(|_| forced.is_true()) {
        out.forbidden(&forced, reason);
    }
    checkpoint::check(component, around.facts, out);
    image::check(component, around, out);
}
