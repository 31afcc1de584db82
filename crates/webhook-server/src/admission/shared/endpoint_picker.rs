//! The endpoint picker of a gateway.

use api_types::v1beta1::ComponentType;

use super::{
    super::{field::Findings, view::Component},
    Owner, Surroundings,
};

pub(super) fn check(component: &Component<'_>, around: &Surroundings<'_>, out: &mut Findings) {
    let is_served = around.facts.features.inference_pool || matches!(around.owner, Owner::Nobody);
    if component.role() == Some(ComponentType::Epp) && !is_served {
        let detail = "an endpoint picker needs the API inference.networking.k8s.io, which this cluster does not serve; \
                      install the Gateway API Inference Extension first";
        out.forbidden(&component.field("type"), detail);
    }
}
