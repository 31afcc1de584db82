//! Rules for pods: images, scheduling, volumes, set-up and ends of containers.

use super::{CauseRule, rule};

/// An image cannot be pulled.
pub const IMAGES: &[CauseRule] = &[
    rule(&["no match for platform"], "ImageArchitecture", ARCHITECTURE),
    rule(&["no matching manifest"], "ImageArchitecture", ARCHITECTURE),
    rule(&["invalidimagename"], "ImageNameInvalid", "correct the name of the image in the pod template"),
    rule(&["couldn't parse image"], "ImageNameInvalid", "correct the name of the image in the pod template"),
    rule(
        &["pull policy of never"],
        "ImageNeverPulled",
        "set imagePullPolicy to IfNotPresent, or load the image on the node",
    ),
    rule(&["toomanyrequests"], "RegistryRateLimit", RATE),
    rule(&["too many requests"], "RegistryRateLimit", RATE),
    rule(&["x509"], "RegistryCertificate", "configure the nodes to trust the CA of the registry"),
    rule(
        &["http response to https client"],
        "RegistryWithoutTls",
        "configure the container runtime of the nodes for a registry without TLS, or give the registry a certificate",
    ),
    rule(&["unauthorized"], "RegistryLogin", LOGIN),
    rule(&["authentication required"], "RegistryLogin", LOGIN),
    rule(&["authorization failed"], "RegistryLogin", LOGIN),
    rule(&["pull access denied"], "RegistryLogin", LOGIN),
    rule(&["403 forbidden"], "RegistryLogin", LOGIN),
    rule(&["denied"], "RegistryLogin", LOGIN),
    rule(&["no such host"], "RegistryUnreachable", REGISTRY),
    rule(&["i/o timeout"], "RegistryUnreachable", REGISTRY),
    rule(&["connection refused"], "RegistryUnreachable", REGISTRY),
    rule(&["deadline exceeded"], "RegistryUnreachable", REGISTRY),
    rule(&["no space left"], "NodeDiskFull", "free disk space on the node, or use a node with a larger disk"),
    rule(&["not found"], "ImageNotFound", MISSING),
    rule(&["manifest unknown"], "ImageNotFound", MISSING),
];

const ARCHITECTURE: &str =
    "use an image that is built for the architecture of the nodes, or select nodes by kubernetes.io/arch";
const RATE: &str = "wait, log in to the registry with an image pull secret, or use a mirror of the registry";
const LOGIN: &str =
    "name a Secret of type kubernetes.io/dockerconfigjson with a login of the registry in imagePullSecrets";
const REGISTRY: &str = "check the host of the image, and that the nodes reach the registry";
const MISSING: &str = "correct name and tag of the image, or push the image to the registry";

/// No node fits a pod. The scheduler checks in this order, from the last to the first: nodes that fail a later one
/// are closer to taking the pod.
pub const SCHEDULING: &[CauseRule] = &[
    rule(&["persistentvolumeclaim", "not found"], "ClaimMissing", CLAIM),
    rule(
        &["unbound immediate persistentvolumeclaims"],
        "ClaimPending",
        "see why the PersistentVolumeClaim is not bound: its storage class, and the events of the claim",
    ),
    rule(&["volume node affinity conflict"], "VolumeElsewhere", VOLUME_ELSEWHERE),
    rule(&["persistentvolume's node affinity"], "VolumeElsewhere", VOLUME_ELSEWHERE),
    rule(
        &["cannot allocate all claims"],
        "DevicesTaken",
        "free devices of the class that the resource claim requests, or add nodes that have them",
    ),
    rule(&["resourceclaim", "not"], "DeviceClaim", "create the ResourceClaim or its template, or correct its name"),
    rule(
        &["topology spread constraints"],
        "TopologySpread",
        "relax topologySpreadConstraints of the pod template, or add nodes in the domains that lack pods",
    ),
    rule(
        &["anti-affinity"],
        "AntiAffinity",
        "relax the anti-affinity of the pod template, or add nodes: each takes one such pod",
    ),
    rule(&["insufficient nvidia.com/"], "NoGpu", GPU),
    rule(&["insufficient amd.com/"], "NoGpu", GPU),
    rule(&["insufficient gpu.intel.com/"], "NoGpu", GPU),
    rule(
        &["insufficient memory"],
        "NoMemory",
        "lower the memory request of the component, free memory on the nodes, or add larger nodes",
    ),
    rule(
        &["insufficient cpu"],
        "NoCpu",
        "lower the CPU request of the component, free CPUs on the nodes, or add larger nodes",
    ),
    rule(
        &["insufficient ephemeral-storage"],
        "NoDisk",
        "lower the ephemeral-storage request of the component, or add nodes with larger disks",
    ),
    rule(&["insufficient rdma"], "NoRdma", "lower the request for RDMA devices, or add nodes that have them"),
    rule(&["free ports"], "PortTaken", "use another host port, or remove hostNetwork from the pod template"),
    rule(&["too many pods"], "TooManyPods", "add nodes: those that fit run as many pods as the kubelet allows"),
    rule(
        &["didn't match pod's node affinity/selector"],
        "NodeSelector",
        "correct nodeSelector or affinity of the pod template, or label a node to match it",
    ),
    rule(
        &["untolerated taint"],
        "Taint",
        "add a toleration for the taint to the pod template, or remove the taint from a node",
    ),
    rule(&["node(s) were unschedulable"], "NodesCordoned", "uncordon a node, or add nodes"),
    rule(&["no nodes available"], "NoNodes", "add nodes to the cluster"),
    rule(&["0/0 nodes"], "NoNodes", "add nodes to the cluster"),
];

const CLAIM: &str = "create the PersistentVolumeClaim, or correct its name in the pod template";
const VOLUME_ELSEWHERE: &str =
    "the volume is in another zone than the nodes that fit; free nodes in that zone, or use a volume of all zones";
const GPU: &str = "free GPUs, add nodes with GPUs, or lower replicas or GPUs of the component; during a rollout, surge \
                   needs GPUs too (annotation nvidia.com/deployment-rolling-update-max-surge: \"0\")";

/// A volume cannot be mounted, or a sandbox cannot be made.
pub const VOLUMES: &[CauseRule] = &[
    rule(&["references non-existent secret key"], "SecretKeyMissing", "add the key to the Secret, or correct it"),
    rule(&["secret", "not found"], "SecretMissing", "create the Secret in the namespace, or correct its name"),
    rule(&["configmap", "not found"], "ConfigMapMissing", "create the ConfigMap in the namespace, or correct its name"),
    rule(&["persistentvolumeclaim", "not found"], "ClaimMissing", CLAIM),
    rule(
        &["multi-attach error"],
        "VolumeInUse",
        "the volume can be used by one node at a time; use a claim with ReadWriteMany, or wait until the other \
        pod is gone",
    ),
    rule(
        &["failed to create pod sandbox"],
        "PodNetwork",
        "look at the network plugin (CNI) and the container runtime of the node",
    ),
    rule(
        &["driver name", "not found"],
        "VolumeDriver",
        "install the CSI driver on the node, or use another storage class",
    ),
    rule(&["access denied by server"], "VolumeAccess", "let the nodes mount the export of the file server"),
    rule(&["timed out waiting for"], "VolumeSlow", "look at the storage system and at the CSI driver of the node"),
];

/// A container cannot be set up.
pub const SETUP: &[CauseRule] = &[
    rule(&["couldn't find key", "secret"], "SecretKeyMissing", "add the key to the Secret, or correct it"),
    rule(&["couldn't find key", "configmap"], "ConfigMapKeyMissing", "add the key to the ConfigMap, or correct it"),
    rule(&["secret", "not found"], "SecretMissing", "create the Secret in the namespace, or correct its name"),
    rule(&["configmap", "not found"], "ConfigMapMissing", "create the ConfigMap in the namespace, or correct its name"),
    rule(
        &["runasnonroot"],
        "RunsAsRoot",
        "set runAsUser in the security context, or use an image whose user is a number that is not 0",
    ),
    rule(&["exec format error"], "ImageArchitecture", ARCHITECTURE),
    rule(&["executable file not found"], "CommandMissing", "correct command and args of the container"),
    rule(&["no such file or directory"], "CommandMissing", "correct command and args of the container"),
    rule(&["no command specified"], "CommandMissing", "set command of the container: its image has none"),
    rule(&["nvidia-container-cli"], "GpuDriver", "look at the NVIDIA driver and container toolkit of the node"),
    rule(&["no runtime for"], "RuntimeClass", "install the container runtime of the runtime class on the nodes"),
];

/// A container or a pod ended.
pub const ENDS: &[CauseRule] = &[
    rule(&["exec format error"], "ImageArchitecture", ARCHITECTURE),
    rule(&["evicted", "ephemeral"], "EvictedForDisk", "request more ephemeral-storage, or put large files on a volume"),
    rule(
        &["evicted", "memory"],
        "EvictedForMemory",
        "request as much memory as the component uses, so that the node is not overcommitted",
    ),
    rule(&["evicted"], "Evicted", "look at the conditions of the node: it was short of a resource"),
    rule(&["preempt"], "Preempted", "give the component a priority class, or add nodes"),
    rule(&["deadlineexceeded"], "DeadlineExceeded", "raise activeDeadlineSeconds"),
    rule(
        &["unexpectedadmissionerror"],
        "DevicePlugin",
        "look at the device plugin of the node: it could not hand out the device",
    ),
    rule(&["nodeaffinity"], "NodeChanged", "the labels of the node no longer match; correct them or nodeSelector"),
    rule(&["outof"], "NodeFull", "the node had no room left; a new pod is scheduled again. Look for static pods"),
    rule(&["nodelost"], "NodeLost", NODE),
    rule(&["shutdown"], "NodeShutdown", "the node was shut down; its pods are replaced on other nodes with room"),
    rule(
        &["exit code 127"],
        "CommandMissing",
        "correct command and args of the container: the program is not in the image",
    ),
    rule(&["exit code 126"], "CommandNotExecutable", "correct command and args: the file cannot be executed"),
    rule(
        &["exit code 139"],
        "Segfault",
        "the program ended with a memory fault; look at its log and at driver and image versions",
    ),
];

/// Whether words are of the container runtime, which could not start a program.
pub fn is_of_runtime(message: &str) -> bool {
    let message = message.to_lowercase();
    ["containerd task", "oci runtime", "container create failed"].iter().any(|words| message.contains(words))
}

/// Remedy for a node that is short of a resource.
pub const PRESSURE: &str = "free disk space, memory or process ids on the node, as its condition says, or add nodes; \
                            until then it takes no pods";
/// Remedy for a node that is gone.
pub const NODE: &str = "start the node again, or delete it (kubectl delete node) so that its pods are replaced";

/// The end of the log of a container that ended.
pub const LOGS: &[CauseRule] = &[
    rule(&["exec format error"], "ImageArchitecture", ARCHITECTURE),
    rule(
        &["cuda out of memory"],
        "GpuMemory",
        "lower the share of GPU memory, the context length or the batch size of the engine, or use more GPUs per \
        replica",
    ),
    rule(
        &["no space left on device"],
        "SharedMemoryFull",
        "raise sharedMemorySize of the component, or the size of its volume",
    ),
    rule(&["gated repo"], "ModelLogin", MODEL_LOGIN),
    rule(&["401 client error"], "ModelLogin", MODEL_LOGIN),
    rule(
        &["repository not found"],
        "ModelNotFound",
        "correct the name of the model in the arguments of the engine; a private one needs a token",
    ),
    rule(
        &["is not a valid model identifier"],
        "ModelNotFound",
        "correct the name of the model in the arguments of the engine",
    ),
    rule(
        &["modulenotfounderror"],
        "ModuleMissing",
        "use an image that has the module, such as a runtime image of Dynamo",
    ),
    rule(
        &["unrecognized arguments"],
        "ArgumentUnknown",
        "correct args of the container: the engine of this image does not accept them",
    ),
    rule(
        &["nats", "connect"],
        "NatsUnreachable",
        "check that NATS runs, and its address in the operator's configuration",
    ),
    rule(
        &["etcd", "connect"],
        "EtcdUnreachable",
        "check that etcd runs, and its address in the operator's configuration",
    ),
    rule(
        &["cuda driver version is insufficient"],
        "GpuDriver",
        "update the NVIDIA driver of the node, or use an older image",
    ),
    rule(
        &["no cuda gpus are available"],
        "NoGpuInContainer",
        "request GPUs for the component (resources.limits nvidia.com/gpu)",
    ),
    rule(&["address already in use"], "PortTaken", "two processes of the pod use one port; correct the arguments"),
    rule(
        &["permission denied"],
        "PermissionDenied",
        "correct securityContext (fsGroup, runAsUser) for the volume or file",
    ),
];

const MODEL_LOGIN: &str = "name a Secret with a token for the model in the environment (HF_TOKEN), and accept the \
                           licence of the model";
