//! The graph controller: turns a `DynamoGraphDeployment` into `DynamoComponentDeployment`s and reports in its status
//! how far they are. It never looks at what the component controller makes of them, only at their status.
//!
//! | module | what |
//! |---|---|
//! | [`apply_overrides`] | the program that lays the user's part of a graph over a proposed one |
//! | [`graph`] | reconciling one graph: observe, validate, plan, apply, status, events |
//! | [`recovery`] | pods that cannot serve any more and that no other controller replaces |
//! | [`relay`] | the program beside a profiler |
//! | [`request`] | profiling for a request, and the graph that comes of it |
//! | [`scaling_adapter`] | handing the replicas of an adapter to its graph |
//! | [`nats_etcd`] | health of NATS and etcd, and cleanup of what deleted graphs left in them |
//! | [`access`] | what the controller may do, as data |
//! | [`run`] | caches, triggers, the loop |

pub mod access;
pub mod apply_overrides;
pub mod graph;
pub mod nats_etcd;
pub mod recovery;
pub mod relay;
pub mod request;
mod run;
pub mod scaling_adapter;

pub use run::run;

/// Name of the binary; also user agent and field manager, so it never changes.
pub const NAME: &str = "dynamo-graph-controller";
