//! Rules about users' objects, typed and pure. Admission and the controllers call the same functions, so that a rule
//! and its text exist once.
//!
//! Paths name components and containers, such as `spec.components[decode].replicas`; admission replaces names by
//! positions. Rules about one component that rendering depends on are in `validate`.
//!
//! | file | rules about |
//! |---|---|
//! | `graph` | a graph as it is, and its changes |
//! | `component` | a component in a graph or on its own |
//! | `fragment` | fragments of Grove's objects |
//! | `power_limit` | power limits of GPUs |
//! | `topology` | placement in the topology of the cluster |
//! | `request` | DynamoGraphDeploymentRequests |
//! | `checkpoint` | DynamoCheckpoints |
//! | `findings` | nothing: what rules find and depend on |
//! | `provider` | the choice of the workload provider |
//! | `fitting` | values that do not fit into their types |
//! | `version` | versions in texts |

pub mod checkpoint;
pub mod component;
mod findings;
mod fitting;
pub mod fragment;
pub mod graph;
mod power_limit;
mod provider;
pub mod request;
mod topology;
mod version;

pub use findings::{Context, Features, Findings, Topology, Warning};
pub use fitting::fit;
pub use provider::{
    ProviderChoice, annotation, discovery_backend, grove_update_strategy, lacks_grove, provider_of_new, vllm_executor,
};
pub use topology::topologies;
pub use version::Version;
