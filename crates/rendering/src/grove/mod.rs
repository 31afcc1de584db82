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
//! | `model` | the input, as data |
//! | `roles` | which cliques a component has |
//! | `clique` | one clique: labels, annotations, pod |
//! | `topology` | where things are placed, the user's fragments included |
//! | `scheduler` | who places them |
//! | `service` | how components are reached |
//! | `readiness` | what Grove's status means |

mod check;
mod clique;
mod model;
mod readiness;
mod roles;
mod scheduler;
mod service;
mod set;
mod topology;

pub use check::check;
pub(crate) use check::check_names;
pub use model::{GroveComponent, GroveGraph, GroveSettings};
pub use readiness::{Classification, GroveReadiness, NotReadyYet, Revision, clique_readiness, group_readiness};
pub use roles::{ChildKind, child_of, set_name};
pub(crate) use roles::{only_assists, shares_memory_between_pods};
pub use scheduler::Scheduler;
pub use service::{render_ingress, render_ray_head_service, render_service, render_virtual_service};
pub use set::render_pod_clique_set;
pub use topology::has_topology;
