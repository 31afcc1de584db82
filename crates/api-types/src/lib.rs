//! The `nvidia.com` API of the Dynamo operator.
//!
//! | module | what |
//! |---|---|
//! | [`v1beta1`] | graphs, their components, requests and scaling adapters, in the version that is stored |
//! | [`v1alpha1`] | models, checkpoints and worker metadata, which have this version only |
//! | [`names`] | every name that is derived from another one; total, bounded, collision-safe |
//! | [`labels`], [`annotations`], [`mod@env`], [`ports`], [`conditions`], [`gpu_memory_service`] | the vocabulary, each string once |
//! | [`gpus`] | which resources are GPUs, and how many pods request |
//! | [`limits`] | budgets for what users write |
//! | [`external`] | kinds of other projects, as far as we write them |
//! | [`rollout_control`] | the annotations by which users control rollouts |
//! | [`revision_history`] | the annotation that lists replaced revisions of a graph's workers |
//! | [`owner`] | the references by which objects belong to others |
//! | [`grove`] | the kinds of Grove that a graph may run as |
//! | [`conversion`] | objects of one version made into objects of the other; pure and total |
//! | [`violations`] | texts of violations that schema and admission share |
//! | [`schema`], [`crds`] | CustomResourceDefinitions made from the types |
//!
//! This crate does no I/O and depends on no async crate.

pub mod annotations;
pub mod conditions;
pub mod conversion;
pub mod crds;
pub mod env;
pub mod external;
pub mod gpu_memory_service;
pub mod gpus;
pub mod grove;
pub mod labels;
pub mod limits;
pub mod names;
pub mod owner;
pub mod ports;
pub mod quantity;
pub mod revision_history;
pub mod rollout_control;
pub mod schema;
pub mod typed;
pub mod v1alpha1;
pub mod v1beta1;
pub mod violations;

/// API group of every kind in this crate.
pub const GROUP: &str = "nvidia.com";

/// Finalizer that the upstream operator puts on graphs and components. Ours never adds it; it is removed when an
/// adopted object is deleted, because nothing else would.
pub const LEGACY_FINALIZER: &str = "nvidia.com/finalizer";

/// Scalar resource of a whole NVIDIA GPU, and the key of the taint on nodes that have them.
pub const GPU: &str = "nvidia.com/gpu";

/// Version of the upstream operator whose behaviour this operator reproduces; what graphs admitted by us are stamped
/// with, so that rules which depend on the age of a graph come out the same.
pub const REFERENCE_VERSION: &str = "1.5.0";
