//! The endpoint picker of a gateway.

use api_types::{v1beta1::ComponentType, violations};

use super::{
    super::{field::Findings, view::Component},
    Owner, Surroundings,
};

pub(super) fn check(component: &Component<'_>, around: &Surroundings<'_>, out: &mut Findings) {
    let config = component.field("eppConfig");
    if component.role() == Some(ComponentType::Epp) {
        if matches!(around.owner, Owner::Graph { .. }) && !around.facts.features.inference_pool {
            let detail = "an endpoint picker needs the API inference.networking.k8s.io, which this cluster does not serve; \
                          install the Gateway API Inference Extension first";
            out.forbidden(&component.field("type"), detail);
        }
        if component.is_multinode() {
            out.forbidden(&component.field("multinode"), violations::PICKER_NODES);
        }
        if component.replicas() != 1 {
            out.invalid(&component.field("replicas"), violations::PICKER_REPLICAS);
        }
        if !config.is_set() {
            out.required(&config, violations::PICKER_CONFIG);
        }
    }
    let reference = config.field("configMapRef");
    if reference.is_set() && reference.field("name").text().is_empty() {
        out.required(&reference.field("name"), violations::PICKER_CONFIG_MAP);
    }
}
