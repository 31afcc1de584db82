//! Pure rendering: one `DynamoComponentDeployment` becomes a Deployment or a LeaderWorkerSet, and a Service.
//!
//! Nothing here does I/O, reads a clock or draws a random number; the same input gives the same objects, byte for byte.
//! User violations are found once, by [`validate`]; everything after it is infallible.
//!
//! ```text
//! validate(&DynamoComponentDeployment)             -> Result<ValidatedComponent, Vec<Violation>>   all at once
//! render_deployment(&RenderInput, &Validated)      -> Deployment        owner, labels, strategy, template, digest
//! render_service(&RenderInput, &Validated)         -> Option<Service>   None: there must be none
//! render_ingress, render_virtual_service           -> Option<…>         the way in from outside
//! render_model_service(namespace, model)           -> Service           of the pods of a base model
//! render_leader_worker_set(&RenderInput, &Validated) -> LeaderWorkerSet   where replicas span nodes
//! keep_live_pull_secrets(&mut Workload, &Validated, Option<&Workload>)   before the workload is applied
//! legacy_type_is_worker(&Validated, Option<&…>, …) -> bool              from the live objects
//! render_autoscaler(metadata, target, rules)       -> HorizontalPodAutoscaler   where v1alpha1 has one
//! render_claim_template(…, SharedGpus)             -> ResourceClaimTemplate   GPUs that a pod's processes share
//! use_memory_of_rank, hold_memory_of_rank, rank_claim   GPU memory that the pods of a Grove group share
//! apply_kv_transfer_policy(&mut PodTemplateSpec, …)  before the template becomes a component's
//! Workload::why_not_ready(), replica_status()      -> Option<NotReady>, ComponentReplicaStatus   of what is live
//! diagnose(&[Pod])                                 -> Option<Diagnosis>  why pods do not serve, and the first of them
//! PullSecretIndex, RegistryHosts                   docker configuration Secrets by registry, no contents kept
//! ```
//!
//! | module | what |
//! |---|---|
//! | `validate` | violations in a component, each with field path and remedy |
//! | [`rules`] | rules about users' objects, for admission and controllers |
//! | `pod` | the pod template, one file per step |
//! | `frameworks` | which engine a worker runs, and what that changes |
//! | [`grove`] | graphs that run on Grove |
//! | [`checkpoint`] | pods that are captured, pods that are restored |
//! | [`device_claims`] | devices that containers have through claims (DRA), and how many of them are GPUs |
//! | [`legacy`] | components of the legacy API: their image is built from an archive |
//! | [`go_json`] | JSON as the upstream operator writes it |
//! | `lws` | replicas that span nodes, as LeaderWorkerSets |
//! | `metadata` | labels and annotations of every object |

pub mod checkpoint;
mod deployment;
pub mod device_claims;
mod diagnosis;
mod digest;
mod exposure;
mod frameworks;
pub mod go_json;
mod gpus;
pub mod grove;
mod identity;
mod kv_transfer;
pub mod legacy;
mod lws;
mod metadata;
mod model;
mod pod;
mod pull_secrets;
mod readiness;
pub mod rules;
mod service;
mod strategy;
mod validate;
mod version;
mod violation;

pub use self::{
    deployment::{render_autoscaler, render_deployment},
    device_claims::render_claim_template,
    diagnosis::{PodCause, PodDiagnosis, diagnose, pod_being_created},
    digest::{carried_digest, keep_live_pull_secrets},
    exposure::{ExposureObject, MESH_DEPARTURE, render_ingress, render_virtual_service},
    frameworks::{
        LEADER_CLIQUE, MultinodePod, NodeRole, Peers, WAIT_FOR_LEADER, WORKER_CLIQUE, framework_of,
        is_operators_program,
    },
    identity::{has_legacy_type, legacy_type_is_worker},
    kv_transfer::{apply_kv_transfer_policy, kv_transfer_annotations, topology_domains},
    lws::{
        LeaderWorkerSet, LeaderWorkerSetSpec, LeaderWorkerSetStatus, LeaderWorkerTemplate, note_status_before,
        render_leader_worker_set, validate_leader_worker_set,
    },
    metadata::component_annotations,
    model::{
        CheckpointUse, DiscoveryBackend, ExposureSettings, PodSettings, RenderInput, SharedGpus, ValidatedComponent,
        WorkloadProvider,
    },
    pod::{hold_memory_of_rank, rank_claim, use_memory_of_rank},
    pull_secrets::{PullSecretIndex, RegistryHost, RegistryHosts},
    readiness::{JobEnd, NotReady, WorkloadObject},
    service::{answers_requests, render_model_service, render_service},
    strategy::RolloutStrategy,
    validate::{validate, validate_on},
};
