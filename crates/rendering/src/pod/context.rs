//! Values that the defaults of a pod depend on.

use api_types::{
    annotations,
    v1beta1::{ComponentType, EppConfig},
};

use crate::{DiscoveryBackend, RenderInput, ValidatedComponent};

const CONTAINER_MODE: &str = "container";

/// Values that the defaults of a pod depend on.
pub(super) struct PodContext<'a> {
    pub(super) component_type: Option<ComponentType>,
    /// The graph, or the component itself if it is standalone.
    pub(super) graph: &'a str,
    pub(super) namespace: &'a str,
    pub(super) dynamo_namespace: String,
    pub(super) generation: Option<&'a str>,
    pub(super) discovery: DiscoveryBackend,
    /// Each container registers for itself instead of the pod as a whole.
    pub(super) per_container: bool,
    pub(super) epp_config: Option<&'a EppConfig>,
}

impl<'a> PodContext<'a> {
    pub(super) fn of(input: &RenderInput<'_>, valid: &ValidatedComponent<'a>) -> Self {
        Self {
            component_type: valid.workload_type(input),
            graph: valid.graph_for_pods(),
            namespace: valid.namespace,
            dynamo_namespace: valid.dynamo_namespace_for_pods(),
            generation: valid.generation(),
            discovery: valid.discovery_backend(input),
            per_container: valid.annotation(annotations::DISCOVERY_MODE) == Some(CONTAINER_MODE),
            epp_config: valid.spec().epp_config.as_ref(),
        }
    }
}
