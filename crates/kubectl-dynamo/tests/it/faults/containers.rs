//! Containers: what the kubelet cannot set up, and programs that end or do not answer.

use serde_json::json;

use super::{
    fault::{Fault, Step, fault, main, pod},
    kubelet::Report,
};

const POD: &str = "Pod/chat-decode-";

/// The end of the log of an engine whose GPU has too little memory: what says so is not the last line.
const CUDA: &str = "\
ERROR [core.py:708] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity
ERROR [core.py:708] of 79.11 GiB of which 1.13 GiB is free.
Process EngineCore_0:
Traceback (most recent call last):
  File \"/usr/lib/python3.12/multiprocessing/process.py\", line 314, in _bootstrap
    self.run()
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_0': 1}
";

const GATED: &str = "\
huggingface_hub.errors.GatedRepoError: 403 Client Error. (Request ID: Root=1-67)

Cannot access gated repo for url https://huggingface.co/api/models/org/model.
Access to model org/model is restricted and you are not in the authorized list. Visit https://huggingface.co/org/model
to ask for access.
";

const ARGUMENTS: &str = "\
usage: __main__.py [-h] [--model MODEL] [--max-model-len MAX_MODEL_LEN]
__main__.py: error: unrecognized arguments: --max-lenght 4096
";

const NATS: &str = "\
INFO dynamo_runtime: starting
Traceback (most recent call last):
Exception: failed to connect to NATS server at nats://nats.dynamo-system:4222: Connection refused (os error 111)
";

pub fn rows() -> Vec<Fault> {
    of_setup().into_iter().chain(of_ends()).chain(of_probes()).collect()
}

fn of_setup() -> Vec<Fault> {
    vec![
        fault("Secret missing", "an environment variable from a Secret that does not exist")
            .step(Step::Nodes(Report::waiting("CreateContainerConfigError", "secret \"hf-token\" not found")))
            .edit(|graph| {
                let key = json!({ "secretKeyRef": { "name": "hf-token", "key": "token" } });
                main(graph)["env"] = json!([{ "name": "HF_TOKEN", "valueFrom": key }]);
            })
            .is("SecretMissing", "Secret/hf-token", "secret \"hf-token\" not found", "create the Secret"),
        fault("key of a Secret missing", "an environment variable from a key that the Secret does not have")
            .before(Step::Apply(json!({ "apiVersion": "v1", "kind": "Secret",
                "metadata": { "name": "hf-token", "namespace": "NAMESPACE" }, "stringData": { "other": "x" } })))
            .step(Step::Nodes(Report::waiting(
                "CreateContainerConfigError",
                "couldn't find key token in Secret {namespace}/hf-token",
            )))
            .edit(|graph| {
                let key = json!({ "secretKeyRef": { "name": "hf-token", "key": "token" } });
                main(graph)["env"] = json!([{ "name": "HF_TOKEN", "valueFrom": key }]);
            })
            .is("SecretKeyMissing", POD, "couldn't find key token", "add the key to the Secret"),
        fault("ConfigMap missing", "a volume of a ConfigMap that does not exist")
            .step(Step::Nodes(Report::creating(
                "FailedMount",
                "MountVolume.SetUp failed for volume \"config\" : configmap \"engine-config\" not found",
            )))
            .edit(|graph| {
                pod(graph)["volumes"] = json!([{ "name": "config", "configMap": { "name": "engine-config" } }]);
            })
            .is("ConfigMapMissing", "ConfigMap/engine-config", "\"engine-config\" not found", "create the ConfigMap"),
        fault("image runs as root", "runAsNonRoot, and an image whose user is root")
            .step(Step::Nodes(Report::waiting(
                "CreateContainerConfigError",
                "container has runAsNonRoot and image will run as root (pod: \"{pod}_{namespace}({uid})\", container: main)",
            )))
            .edit(|graph| pod(graph)["securityContext"] = json!({ "runAsNonRoot": true }))
            .is("RunsAsRoot", POD, "runAsNonRoot", "set runAsUser"),
        fault("command missing", "a command that is not in the image")
            .step(Step::Nodes(Report::ended(
                "StartError",
                128,
                "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create \
                 failed: unable to start container process: error during container init: exec: \"pythn3\": executable \
                 file not found in $PATH",
                "",
            )))
            .edit(|graph| main(graph)["command"] = json!(["pythn3"]))
            .is("CommandMissing", POD, "executable file not found", "correct command and args"),
        fault("GPU driver", "a node whose NVIDIA driver is not loaded")
            .pods(Report::ended(
                "StartError",
                128,
                "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create \
                 failed: unable to start container process: error during container init: error running prestart hook \
                 #0: exit status 1, stdout: , stderr: nvidia-container-cli: initialization error: nvml error: driver \
                 not loaded",
                "",
            ))
            .is("GpuDriver", POD, "driver not loaded", "NVIDIA driver"),
        fault("pod network", "a node whose network plugin fails")
            .pods(Report::creating(
                "FailedCreatePodSandBox",
                "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox \
                 \"5f3a\": plugin type=\"calico\" failed (add): error getting ClusterInformation: connection is \
                 unauthorized",
            ))
            .is("PodNetwork", POD, "failed to setup network", "network plugin"),
    ]
}

fn of_ends() -> Vec<Fault> {
    vec![
        fault("GPU memory", "an engine that needs more GPU memory than there is")
            .pods(Report::ended("Error", 1, "", CUDA))
            .is("GpuMemory", POD, "exit code 1", "lower the share of GPU memory"),
        fault("model needs a login", "an engine that loads a gated model without a token")
            .pods(Report::ended("Error", 1, "", GATED))
            .is("ModelLogin", POD, "exit code 1", "HF_TOKEN"),
        fault("argument unknown", "an argument that the engine does not have")
            .step(Step::Nodes(Report::ended("Error", 2, "", ARGUMENTS)))
            .edit(|graph| main(graph)["args"] = json!(["-m", "dynamo.vllm", "--max-lenght", "4096"]))
            .is("ArgumentUnknown", POD, "exit code 2", "correct args"),
        fault("NATS unreachable from the pods", "an engine that does not reach NATS")
            .pods(Report::ended("Error", 1, "", NATS))
            .is("NatsUnreachable", POD, "exit code 1", "check that NATS runs"),
        fault("crash", "an engine that ends with words that no rule matches")
            .pods(Report::ended("Error", 1, "", "ValueError: no available layout for the KV cache\n"))
            .is("CrashLoop", POD, "exit code 1", "--previous"),
        fault("out of memory", "a container that uses more memory than its limit")
            .pods(Report::ended("OOMKilled", 137, "", ""))
            .is("OutOfMemory", POD, "used more memory than its limit", "raise the memory limit"),
        fault("memory fault", "a program that ends with signal 11").pods(Report::ended("Error", 139, "", "")).is(
            "Segfault",
            POD,
            "exit code 139",
            "driver and image versions",
        ),
        fault("program of another architecture", "a program that the node cannot execute")
            .pods(Report::ended("Error", 255, "", "exec /usr/bin/python3: exec format error\n"))
            .is("ImageArchitecture", POD, "exit code 255", "kubernetes.io/arch"),
        fault("init container fails", "an init container that ends with an error")
            .graph(|graph| {
                pod(graph)["initContainers"] = json!([{ "name": "copy", "image": "registry.example.com/copy:1" }]);
            })
            .pods(Report::ended("Error", 1, "", "cp: cannot stat '/models/weights'\n").of_init())
            .is("CrashLoop", POD, "container copy ended", "--container copy --previous"),
    ]
}

fn of_probes() -> Vec<Fault> {
    vec![
        fault("liveness probe", "an engine that is ended because its liveness probe fails")
            .pods(
                Report::ended("Error", 137, "", "INFO: waiting for requests\n")
                    .event("Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 503"),
            )
            .is("LivenessProbe", POD, "exit code 137", "liveness probe"),
        fault("readiness probe", "an engine that has been up for ten minutes and answers 503")
            .pods(Report::unready(true, 10, "Readiness probe failed: HTTP probe failed with statuscode: 503"))
            .is("ReadinessProbe", POD, "readiness probe has not succeeded", "path and port"),
        fault("startup probe", "an engine that has been starting for 40 minutes")
            .pods(Report::unready(
                false,
                40,
                "Startup probe failed: Get \"http://10.244.0.9:9090/live\": dial tcp 10.244.0.9:9090: connect: \
                 connection refused",
            ))
            .is("StartupProbe", POD, "startup probe has not succeeded", "failureThreshold"),
    ]
}
