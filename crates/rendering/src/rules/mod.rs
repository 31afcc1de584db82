//! Rules about users' objects, typed and pure. Admission and the controllers call the same functions, so that a rule
//! and its text exist once.
//!
//! Paths name components and containers, such as `spec.components[decode].replicas`; admission replaces names by
//! positions. Rules about one component that rendering depends on are in `validate`.
//!
//! | file | rules about |
//! |---|---|
//! | `graph` | a graph as it is, and its changes |
//! | `annotations` | values of annotations |
//! | `component` | a component in a graph or on its own |
//! | `fragment` | fragments of Grove's objects |
//! | `power_limit` | power limits of GPUs |
//! | `topology` | placement in the topology of the cluster |
//! | `request` | DynamoGraphDeploymentRequests |
//! | `checkpoint` | DynamoCheckpoints |
//! | `context` | nothing: what rules depend on |
//! | `provider` | the choice of the workload provider |
//! | `fitting` | values that do not fit into their types |
//! | `version` | versions in texts |

mod annotations;
pub mod checkpoint;
pub mod component;
mod context;
mod features;
mod findings;
mod fitting;
pub mod fragment;
pub mod graph;
mod power_limit;
mod provider;
pub mod request;
mod topology;
mod version;

pub use annotations::{discovery_backend, grove_update_strategy, vllm_executor};
pub use context::{Context, Topology};
pub use features::Features;
pub use findings::{Findings, Warning};
pub use fitting::fit;
pub use provider::{ProviderChoice, annotation, lacks_grove, provider_of_new};
pub use topology::topologies;
pub use version::Version;
