//! Condition types and reasons.
//!
//! `Ready`, `Reconciling` and `Stalled` follow kstatus; the others are the upstream operator's. The snake_case reasons
//! of a graph's `Ready` are the upstream operator's as well: dashboards and planners key on them.

/// `status.observedGeneration` of an object that no controller has reconciled yet.
pub const UNOBSERVED: i64 = -1;

/// Whether a status, observed at `observed`, is of the latest spec.
pub fn is_current(generation: Option<i64>, observed: Option<i64>) -> bool {
    generation.is_none() || observed.is_some_and(|observed| Some(observed) >= generation)
}

/// kstatus: the object is fully rolled out and serving.
pub const READY: &str = "Ready";
/// kstatus: the controller is working on the object.
pub const RECONCILING: &str = "Reconciling";
/// kstatus: the controller cannot go on until a user changes something.
pub const STALLED: &str = "Stalled";
/// DynamoGraphDeployment: every field of the spec has an effect. Only there when it is false.
pub const SPEC_SERVED: &str = "SpecServed";
/// DynamoGraphDeployment: NATS and etcd can be used. Only there when the operator has an address of one.
pub const INFRASTRUCTURE_READY: &str = "InfrastructureReady";
/// DynamoGraphDeployment: its namespace has the Secret with the SSH key for MPI. Only there when it is false; the
/// webhook server copies the Secret then.
pub const MPI_KEY_AVAILABLE: &str = "MPIKeyAvailable";
/// DynamoGraphDeployment on Grove: the topology in which it is placed exists. Only there when it names one.
pub const TOPOLOGY_AVAILABLE: &str = "TopologyLevelsAvailable";
/// DynamoGraphDeployment: the new worker revision progresses within its deadline. Only there while a deadline counts,
/// or after it has passed. Its message ends with the record from which the controller continues.
pub const ROLLOUT_PROGRESSING: &str = "RolloutProgressing";
/// DynamoComponentDeployment: the workload has its replicas available.
pub const AVAILABLE: &str = "Available";
/// DynamoComponentDeployment: mirror of [`AVAILABLE`] under the upstream operator's second name.
pub const COMPONENT_READY: &str = "DynamoComponentReady";

/// Reason of `Reconciling`, of several kinds: a webhook that the API server has to call for an object does not answer.
pub const WEBHOOK_UNAVAILABLE: &str = "WebhookUnavailable";
/// Reason of `Stalled`, of several kinds: the spec has a violation that only the user can correct.
pub const INVALID_SPEC: &str = "InvalidSpec";
/// Reason of `Stalled`, of several kinds: an object that is not ours has a name that we need.
pub const NAME_TAKEN: &str = "NameTaken";
/// Reason of `Stalled`, of several kinds: the cluster does not serve an API that the object needs.
pub const API_MISSING: &str = "ApiMissing";
/// Reason of `Reconciling` or `Stalled`, of several kinds: a right or a quota is missing.
pub const FORBIDDEN: &str = "Forbidden";
/// Reason of `Reconciling`, of several kinds: children are being written or are coming up.
pub const PROGRESSING: &str = "Progressing";

/// Reasons of a graph's conditions.
pub mod graph {
    pub use super::{
        API_MISSING, FORBIDDEN, INVALID_SPEC, NAME_TAKEN, PROGRESSING, WEBHOOK_UNAVAILABLE, component::GPUS_UNKNOWN,
    };

    /// `Ready`: everything is ready.
    pub const ALL_READY: &str = "all_resources_are_ready";
    /// `Ready`: at least one component is not ready.
    pub const SOME_NOT_READY: &str = "some_resources_are_not_ready";
    /// `Ready`: a new worker revision is taking over.
    pub const ROLLING_UPDATE: &str = "rolling_update_in_progress";
    /// `Ready`: the workers are not those of the spec, because the rollout is paused, held at a step, or undone.
    pub const ROLLING_UPDATE_HELD: &str = "rolling_update_held";
    /// `Reconciling`: the rollout is paused by its user.
    pub const ROLLOUT_PAUSED: &str = "RolloutPaused";
    /// `Reconciling`: the new worker revision has the replicas of its step.
    pub const ROLLOUT_HELD: &str = "RolloutHeld";
    /// `Reconciling` and `Stalled`: the workers return, or have returned, to an older revision.
    pub const ROLLOUT_UNDONE: &str = "RolloutUndone";
    /// `RolloutProgressing`: the next worker of the new revision is waited for.
    pub const WORKERS_AWAITED: &str = "WorkersAwaited";
    /// `RolloutProgressing` and `Stalled`: no worker of the new revision became available in time.
    pub const DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// `Ready`: the spec cannot be reconciled as it is.
    pub const FAILED: &str = "failed_to_reconcile_the_resources";
    /// `Ready`: multi-node components need LeaderWorkerSet or Grove, and neither is served.
    pub const NO_MULTINODE_ORCHESTRATOR: &str = "no_multinode_orchestrator_available";
    /// `Ready`: the pinned workload provider's API is not served.
    pub const PROVIDER_UNAVAILABLE: &str = "selected_workload_provider_unavailable";
    /// `Ready`: the provider annotation has an unknown value.
    pub const PROVIDER_UNSUPPORTED: &str = "unsupported_workload_provider";
    /// `Ready`: the image that the graph runs is not there yet.
    pub const IMAGE_NOT_READY: &str = "dynamoComponent_is_not_ready";
    /// `Reconciling`: the same.
    pub const IMAGE_AWAITED: &str = "ImageAwaited";
    /// `Stalled`: live objects of both workload providers run the graph.
    pub const CONFLICTING_PROVIDERS: &str = "ConflictingProviders";
    /// `Stalled`: the scheduler's queue does not exist.
    pub const QUEUE_MISSING: &str = "QueueMissing";
    /// `Ready`: pods find no place.
    pub const INSUFFICIENT_CAPACITY: &str = "insufficient_capacity";
    /// `Ready`: pods are being replaced.
    pub const UPDATING: &str = "updating";
    /// `Ready`: pods have a place and are not ready.
    pub const PODS_NOT_READY: &str = "pods_not_ready";
    /// `Ready`: components are not ready for different reasons.
    pub const MIXED: &str = "mixed_not_ready_reasons";
    /// `Ready`: pods of a component wait for their checkpoint.
    pub const WAITING_FOR_CHECKPOINT: &str = "waiting_for_checkpoint";
    /// `Stalled`: pods of a component wait for a checkpoint that failed.
    pub const CHECKPOINT_FAILED: &str = "CheckpointFailed";
    /// `TopologyLevelsAvailable`: nothing is known yet.
    pub const TOPOLOGY_PENDING: &str = "TopologyConditionPending";
    /// `TopologyLevelsAvailable` and `Stalled`: the topology does not exist.
    pub const TOPOLOGY_NOT_FOUND: &str = "TopologyDefinitionNotFound";
    /// `TopologyLevelsAvailable` and `Stalled`: the topology lacks levels that the graph names.
    pub const TOPOLOGY_LEVELS_UNAVAILABLE: &str = "TopologyLevelsUnavailable";
    /// `TopologyLevelsAvailable`: all levels exist.
    pub const ALL_TOPOLOGY_LEVELS: &str = "AllTopologyLevelsAvailable";
    /// `SpecServed`: this operator does not act on some fields yet.
    pub const FIELDS_WITHOUT_EFFECT: &str = "FieldsWithoutEffect";
    /// `MPIKeyAvailable`: the Secret does not exist yet.
    pub const SECRET_MISSING: &str = "SecretMissing";
    /// `Reconciling`: nothing left to do.
    pub const SETTLED: &str = "Settled";
    /// `Stalled`: nothing is in the way.
    pub const NOT_STALLED: &str = "NotStalled";
}

/// Reasons of `InfrastructureReady`.
pub mod infrastructure {
    /// All that is configured answers.
    pub const CONNECTED: &str = "Connected";
    /// Something does not answer, or does not let us in.
    pub const UNREACHABLE: &str = "Unreachable";
    /// The Secret with the credentials, or an address, cannot be used.
    pub const UNUSABLE: &str = "ConfigurationUnusable";
}

/// Reasons of a component's conditions.
pub mod component {
    pub use super::{API_MISSING, INVALID_SPEC, NAME_TAKEN, PROGRESSING, WEBHOOK_UNAVAILABLE};

    /// `Available`: the Deployment is ready.
    pub const DEPLOYMENT_READY: &str = "DeploymentReady";
    /// `Available`: the Deployment is not ready.
    pub const DEPLOYMENT_NOT_READY: &str = "DeploymentNotReady";
    /// `Available`: the LeaderWorkerSet is ready.
    pub const LEADER_WORKER_SET_READY: &str = "LeaderWorkerSetReady";
    /// `Available`: the LeaderWorkerSet is not ready.
    pub const LEADER_WORKER_SET_NOT_READY: &str = "LeaderWorkerSetNotReady";
    /// `DynamoComponentReady`: ready.
    pub const READY: &str = "ComponentReady";
    /// `DynamoComponentReady`: not ready.
    pub const NOT_READY: &str = "ComponentNotReady";
    /// `Reconciling`: a container cannot be set up, because a Secret or ConfigMap is missing, for example.
    pub const CONTAINER_CONFIG: &str = "ContainerConfigInvalid";
    /// `Reconciling`: a volume cannot be mounted, because the Secret or ConfigMap that it is of is missing, for
    /// example.
    pub const VOLUME_NOT_MOUNTED: &str = "VolumeNotMounted";
    /// `Reconciling`: an image cannot be pulled.
    pub const IMAGE_PULL_FAILED: &str = "ImagePullFailed";
    /// `Reconciling`: a container used more memory than it may.
    pub const OUT_OF_MEMORY: &str = "OutOfMemory";
    /// `Reconciling`: a container ends again and again.
    pub const CRASH_LOOP: &str = "CrashLoop";
    /// `Reconciling`: a pod ended and is not started again.
    pub const POD_FAILED: &str = "PodFailed";
    /// `Reconciling`: no node takes a pod.
    pub const UNSCHEDULABLE: &str = "Unschedulable";
    /// `Reconciling`: pods wait for the others of their gang.
    pub const SCHEDULING_GATED: &str = "SchedulingGated";
    /// `Reconciling`: containers are being created.
    pub const PODS_STARTING: &str = "PodsStarting";
    /// `Reconciling`: pods run, and a probe has not succeeded.
    pub const PROBE_NOT_PASSED: &str = "ProbeNotPassed";
    /// `Reconciling`: pods are refused, by a quota or a policy.
    pub const PODS_REFUSED: &str = "PodsRefused";
    /// `Reconciling`: the GPUs that an engine has through claims cannot be counted, because a claim or its class is
    /// missing.
    pub const GPUS_UNKNOWN: &str = "GpuCountUnknown";
    /// Reasons of `Reconciling` that need an action of a user, the most urgent first.
    pub const TROUBLES: [&str; 9] = [
        GPUS_UNKNOWN,
        CONTAINER_CONFIG,
        VOLUME_NOT_MOUNTED,
        IMAGE_PULL_FAILED,
        OUT_OF_MEMORY,
        CRASH_LOOP,
        POD_FAILED,
        UNSCHEDULABLE,
        PODS_REFUSED,
    ];
    /// A reason of `Reconciling`, if it is one of [`TROUBLES`].
    pub fn trouble(reason: &str) -> Option<&'static str> {
        TROUBLES.into_iter().find(|trouble| *trouble == reason)
    }
    /// Type: the image pull secrets that the pod template names exist.
    pub const PULL_SECRETS_FOUND: &str = "ImagePullSecretsFound";
    /// Type, of graphs too: the engine has the flags by which the nodes of a replica find each other. Present only when
    /// false.
    pub const NODES_JOINED: &str = "NodesJoined";
    /// `NodesJoined`: no command line of the engine was found to which flags could be added.
    pub const ENGINE_NOT_FOUND: &str = "EngineNotFound";
    /// `ImagePullSecretsFound`: all of them exist.
    pub const ALL_FOUND: &str = "AllFound";
    /// `ImagePullSecretsFound`: at least one does not exist.
    pub const SECRET_MISSING: &str = "SecretMissing";
}

/// Types and reasons of a model's conditions.
pub mod model {
    pub use super::INVALID_SPEC;

    /// Type: the model is served on every endpoint.
    pub const ENDPOINTS_READY: &str = "EndpointsReady";
    /// Type: there are Services for workers of the base model.
    pub const SERVICES_FOUND: &str = "ServicesFound";
    /// `ServicesFound`: there are none.
    pub const NO_SERVICES_FOUND: &str = "NoServicesFound";
    /// `EndpointsReady`, of adapters: loaded on every endpoint.
    pub const ALL_ENDPOINTS_READY: &str = "AllEndpointsReady";
    /// `EndpointsReady`, of base models: every endpoint is ready.
    pub const ENDPOINTS_DISCOVERED: &str = "EndpointsDiscovered";
    /// `EndpointsReady`: not on every endpoint.
    pub const NOT_READY: &str = "NotReady";
    /// `EndpointsReady`: there is no endpoint.
    pub const NO_ENDPOINTS: &str = "NoEndpoints";
    /// `Stalled`: another model has loaded an adapter of this name from another source.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// `Reconciling`: a right is missing, or a policy refuses the model's finalizer.
    pub const FORBIDDEN: &str = "Forbidden";
    /// `Stalled`: workers keep refusing the adapter.
    pub const LOAD_FAILED: &str = "LoadFailed";
    /// `Reconciling`: adapters are being loaded, or workers are coming up.
    pub const PROGRESSING: &str = "Progressing";
}

/// Types and reasons of an image build's conditions.
pub mod image_build {
    /// Type: a build runs.
    pub const BUILDING: &str = "ImageBuilding";
    /// Type: the registry has the image. While it is true, its message is the image's name, and nothing else.
    pub const EXISTS: &str = "ImageExists";
    /// Type: the registry was queried. Its message is the image's name.
    pub const CHECKED: &str = "ImageExistsChecked";
    /// Type: the image can be used.
    pub const AVAILABLE: &str = "DynamoComponentAvailable";
    /// Type: the manifest in the archive was read for the observed generation; only where a graph needs it.
    pub const MANIFEST_READ: &str = "ManifestRead";
    /// Reason of everything that has none of its own.
    pub const RECONCILING: &str = "Reconciling";
    /// The build took longer than it may.
    pub const TIMEOUT: &str = "Timeout";
    /// The build failed.
    pub const BUILD_FAILED: &str = "BuildFailed";
    /// The spec, or the operator's settings, are invalid.
    pub const INVALID: &str = "InvalidSpec";
    /// The registry, the API store or a webhook of the API server does not answer as it should.
    pub const UNREACHABLE: &str = "Unreachable";
    /// Other builds come first.
    pub const QUEUED: &str = "Queued";
    /// An object that is not ours has a name that we need, or a right is missing.
    pub const BLOCKED: &str = "Blocked";
    /// Reasons that need an action of a user.
    pub const STUCK: [&str; 4] = [BUILD_FAILED, TIMEOUT, INVALID, BLOCKED];
}

/// Types and reasons of a checkpoint's conditions.
pub mod checkpoint {
    pub use super::{API_MISSING, FORBIDDEN, INVALID_SPEC, NAME_TAKEN};

    /// Type: the Job whose pod is captured was made.
    pub const JOB_CREATED: &str = "JobCreated";
    /// Type: the Job ended, and the capture with it.
    pub const JOB_COMPLETED: &str = "JobCompleted";
    /// `JobCreated`: it was.
    pub const CREATED: &str = "JobCreated";
    /// `JobCreated`: it was deleted before anything was captured.
    pub const JOB_DELETED: &str = "JobDeleted";
    /// `JobCreated`: the pod template lacks what processes need that share GPU memory.
    pub const NOT_PREPARED: &str = "GMSPodTemplateNotPrepared";
    /// `JobCompleted`, `Ready`: the processes are captured, and the Job has ended well.
    pub const CAPTURED: &str = "PodSnapshotAndJobReady";
    /// `JobCompleted`: the Job failed.
    pub const JOB_FAILED: &str = "JobFailed";
    /// `JobCompleted`: the Job was deleted before it ended.
    pub const JOB_DELETED_EARLY: &str = "JobDeletedBeforeComplete";
    /// `JobCompleted`: the capture failed.
    pub const CAPTURE_FAILED: &str = "PodSnapshotFailed";
    /// `JobCompleted`: a PodSnapshot of that name has another owner.
    pub const CAPTURE_NAME_TAKEN: &str = "PodSnapshotNameConflict";
    /// `JobCompleted`: the API server rejects the PodSnapshot.
    pub const CAPTURE_REFUSED: &str = "PodSnapshotCreateFailed";
    /// `JobCompleted`: an older checkpoint has the same identifier.
    pub const DUPLICATE: &str = "DuplicateIdentifier";
    /// `Stalled`: checkpoints are switched off.
    pub const DISABLED: &str = "CheckpointDisabled";
    /// `Stalled`: the checkpoint is given up.
    pub const FAILED: &str = "CheckpointFailed";
    /// `Stalled`: storage is missing or its settings are invalid.
    pub const NO_STORAGE: &str = "StorageUnavailable";
    /// `Reconciling`, `Ready`: on the way.
    pub const CAPTURING: &str = "Capturing";
}

/// Types and reasons of a request's conditions.
pub mod request {
    pub use super::{FORBIDDEN, NAME_TAKEN, WEBHOOK_UNAVAILABLE};

    /// Type: all in all.
    pub const SUCCEEDED: &str = "Succeeded";
    /// Type: the spec can be carried out.
    pub const VALIDATION: &str = "Validation";
    /// Type: the profiler has ended well.
    pub const PROFILING: &str = "Profiling";
    /// Type: the graph is known.
    pub const SPEC_GENERATED: &str = "SpecGenerated";
    /// Type: the graph serves.
    pub const DEPLOYMENT_READY: &str = "DeploymentReady";
    /// `Validation`: it can.
    pub const VALIDATION_PASSED: &str = "ValidationPassed";
    /// `Validation`: it cannot.
    pub const VALIDATION_FAILED: &str = "ValidationFailed";
    /// `Profiling`: the Job is being prepared.
    pub const DISCOVERING_HARDWARE: &str = "DiscoveringHardware";
    /// `Profiling`: the Job cannot be made.
    pub const JOB_CREATION_FAILED: &str = "JobCreationFailed";
    /// `Profiling`: the Job was made just now.
    pub const INITIALIZING: &str = "Initializing";
    /// `Profiling`: the Job runs, and the profiler has not said more.
    pub const PROFILING_RUNNING: &str = "ProfilingRunning";
    /// `Profiling`: the profiler says that it is done, and the Job has not ended.
    pub const COMPLETED: &str = "Completed";
    /// `Profiling`: done.
    pub const PROFILING_COMPLETED: &str = "ProfilingCompleted";
    /// `Profiling`: failed before the profiler said what it was doing.
    pub const PROFILING_FAILED: &str = "ProfilingFailed";
    /// `SpecGenerated`: what the profiler left is no graph.
    pub const GENERATION_FAILED: &str = "GenerationFailed";
    /// `DeploymentReady`: the graph is coming up.
    pub const DEPLOYMENT_IN_PROGRESS: &str = "DeploymentInProgress";
    /// `DeploymentReady`: the graph served and no longer does.
    pub const DEPLOYMENT_DEGRADED: &str = "DeploymentDegraded";
    /// `DeploymentReady`: the graph was deleted.
    pub const DEPLOYMENT_DELETED: &str = "DeploymentDeleted";
    /// `DeploymentReady`: the API server rejects the graph.
    pub const DEPLOYMENT_REJECTED: &str = "DeploymentRejected";
    /// `Succeeded`: not begun.
    pub const PENDING: &str = "Pending";
    /// `Succeeded`: the graph is coming up.
    pub const DEPLOYING: &str = "Deploying";
    /// `Succeeded`: the graph serves.
    pub const DEPLOYED: &str = "Deployed";
    /// `Succeeded`: failed for a reason without a condition of its own.
    pub const FAILED: &str = "Failed";
    /// `SpecServed`: the spec was changed after profiling had begun.
    pub const SPEC_CHANGE_REJECTED: &str = "SpecChangeRejected";
    /// `Stalled`: the pod of the profiler cannot start.
    pub const POD_CANNOT_START: &str = "PodCannotStart";
}
