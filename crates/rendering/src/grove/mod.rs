//! Graphs that run on Grove: one PodCliqueSet for all components, and a Service for each.
//!
//! ```text
//! check(&DynamoGraphDeployment)             -> Vec<Violation>    violations that only Grove makes violations
//! render_pod_clique_set(&GroveGraph)        -> PodCliqueSet    without owner
//! render_service(&GroveGraph, &component)   -> Option<Service> without owner; None: there must be none
//! render_ray_head_service(&GroveGraph, &component) -> Option<Service>   the same, for others to join an elastic worker
//! render_ingress, render_virtual_service    -> Option<…>       the way in from outside, likewise
//! child_of(&ComponentSpec)                  -> ChildKind       what Grove makes of a component, and scales
//! clique_readiness, group_readiness         -> GroveReadiness  of what Grove made
//! ```
//!
//! | file | what |
//! |---|---|
//! | `roles` | which cliques a component has |
//! | `clique` | one clique: labels, annotations, pod |
//! | `topology` | where things are placed, the user's fragments included |
//! | `scheduler` | who places them |
//! | `service` | how components are reached |
//! | `readiness` | what Grove's status means |

mod check;
mod clique;
mod readiness;
mod roles;
mod scheduler;
mod service;
mod topology;

use std::collections::BTreeMap;

use api_types::v1beta1::{ComponentSpec, DynamoGraphDeploymentSpec};
pub use check::check;
pub(crate) use check::check_names;
pub use readiness::{Classification, GroveReadiness, NotReadyYet, Revision, clique_readiness, group_readiness};
pub use roles::{ChildKind, child_of, set_name};
pub(crate) use roles::{only_assists, shares_memory_between_pods};
pub use scheduler::Scheduler;
pub use service::{
    render_ingress, render_pod_clique_set, render_ray_head_service, render_service, render_virtual_service,
};
pub use topology::has_topology;

use crate::{PodSettings, PullSecretIndex, ValidatedComponent, checkpoint::Restore};

/// A graph as it is rendered for Grove.
#[derive(Clone, Debug)]
pub struct GroveGraph<'a> {
    /// Name of the graph.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its own annotations.
    pub annotations: &'a BTreeMap<String, String>,
    /// Its spec.
    pub spec: &'a DynamoGraphDeploymentSpec,
    /// Name of the PodCliqueSet.
    pub set_name: &'a str,
    /// The components, in the order of the spec.
    pub components: &'a [GroveComponent<'a>],
    /// Settings of the operator that reach pods.
    pub pods: &'a PodSettings,
    /// Settings of the operator for Grove.
    pub grove: &'a GroveSettings,
    /// Image pull secrets of the namespace.
    pub pull_secrets: &'a PullSecretIndex,
}

/// One component of it.
#[derive(Clone, Debug)]
pub struct GroveComponent<'a> {
    /// The component as its user wrote it.
    pub declared: &'a ComponentSpec,
    /// The component with what holds for the whole graph merged in.
    pub valid: ValidatedComponent<'a>,
    /// A type that no version of the API knows, as the user of an older version wrote it. It means no particular role,
    /// but pods and Services bear it.
    pub unknown_type: Option<&'a str>,
    /// Live pods of a prefill or decode component are labelled `worker`, as operators before these types made them.
    pub legacy_type_is_worker: bool,
    /// Id of the restart that its pods must have gone through.
    pub restart_at: Option<&'a str>,
    /// How its pods start.
    pub restore: Restore<'a>,
    /// GPUs that its main container has through claims, see [`RenderInput`](crate::RenderInput::claimed_gpus).
    pub claimed_gpus: u32,
}

/// Settings of the operator for Grove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroveSettings {
    /// How long less than the minimum may be available before a gang is restarted, as a Go duration such as `15m0s`;
    /// Grove's default if `None`.
    pub termination_delay: Option<String>,
    /// Who places the pods.
    pub scheduler: Scheduler,
}
