//! Code that all controller processes of the operator share.
//!
//! - [`process`]: flags, logs, client, health and metrics servers, shutdown.
//! - [`settings`]: the `OperatorConfiguration` file.
//! - [`store`]: pruned caches fed by watches, with an index by owner.
//! - [`controller`]: the keyed work queue that calls a reconcile function.
//! - [`apply`]: compares what is desired with what is live, and writes only the difference.
//! - [`device_claims`]: the GPUs that an engine has through claims.
//! - [`conditions`], [`events`], [`metrics`]: the small parts of every reconcile.
//! - [`context`]: the client, settings, readiness and shutdown that a process gives to its controllers.
//! - [`failure`]: kinds of failure and their consequences.
//! - [`notifications`]: notifies the receivers of the configuration of failing objects.
//! - [`pods`]: the pods of objects whose replicas are missing, and warning events of Kubernetes.
//! - [`pull_secrets`]: which docker configuration Secrets open which registries.
//! - [`request`]: steps against the API server, reads that no cache answers, and why a reconcile ends early.
//! - [`fairness`]: shares a bounded number of places between namespaces; the delay before a key is tried again.
//! - [`leader`]: of several replicas, one acts.
//! - [`lease`]: names and times of the Leases of `leader` and `shards`.
//! - [`scope`]: which operator acts in a namespace.
//! - [`shards`]: which replica of a controller acts in a namespace.
//! - [`sync`]: locks that a panic leaves usable.
//! - [`yaml`]: texts that people and programs hand to the operator.
//! - [`access`]: the write contract of a controller as data, and the RBAC made from it.
//!
//! This crate depends on the Kubernetes API, and on nothing of the way in which Dynamo's kinds are reconciled.

pub mod access;
pub mod apply;
pub mod conditions;
pub mod context;
pub mod controller;
pub mod device_claims;
pub mod events;
pub mod failure;
pub mod fairness;
pub mod leader;
pub mod lease;
pub mod metrics;
pub mod notifications;
mod places;
pub mod pods;
pub mod process;
pub mod pull_secrets;
pub mod request;
pub mod scope;
pub mod settings;
pub mod shards;
pub mod store;
pub mod sync;
pub mod uid_map;
pub mod yaml;
