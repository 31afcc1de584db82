//! A real node: containerd, kubelet and kube-proxy, in the network namespace of this process.

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use serde_json::{Value, json};
use test_cluster::{
    Cluster, Options, Program,
    assets::{Assets, Tool, ToolSet},
    wait,
};

use super::{REPOSITORY, TAG, machine};

/// The node's name.
const NAME: &str = "real";
/// The node's address, on the loopback device of its own network: pods reach it, and so it is the API server's, too.
const ADDRESS: &str = "172.31.255.1";
const POD_RANGE: &str = "10.244.0.0/24";
/// Everything that belongs to the node, in memory.
const HOME: &str = "/run/dynamo-node";
/// The machine's resolver configuration, for pods.
const RESOLVER: &str = "/run/dynamo-node/resolv.conf";
/// Settings of the whole machine that a kubelet changes: what happens when memory runs out, or the kernel fails.
const KERNEL: [&str; 6] = [
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
];
const READY_LIMIT: Duration = Duration::from_secs(180);

/// Builds what is not there yet of the programs of a node.
pub(super) fn build_tools() -> Result<()> {
    let assets = Assets::from_env()?;
    [ToolSet::Control, ToolSet::Clients, ToolSet::Node, ToolSet::Registry]
        .into_iter()
        .try_for_each(|set| assets.build(set))?;
    Ok(())
}

/// Returns the options of the control plane for a real node.
pub(super) fn options() -> Options {
    let apiserver = [
        "--bind-address=0.0.0.0".to_owned(),
        format!("--advertise-address={ADDRESS}"),
        // Pods find the API server by the Service `kubernetes`.
        "--endpoint-reconciler-type=lease".to_owned(),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
    ];
    Options { scheduler: true, audit: true, apiserver_args: apiserver.into(), ..Options::default() }
}

/// Prepares network and mounts. All of it goes with the namespaces.
pub(super) fn prepare() -> Result<()> {
    // Often a link to a file below /run, which is another one from here on.
    let resolver = fs::read("/etc/resolv.conf").unwrap_or_default();
    for dir in ["/run", "/var/log"].into_iter().chain(machine::PLACES) {
        command("mount", &["-t", "tmpfs", "tmpfs", dir])?;
    }
    for dir in ["plugins.d", "state", "kernel"] {
        fs::create_dir_all(Path::new(HOME).join(dir)).context("cannot make the directory of the node")?;
    }
    fs::write(RESOLVER, resolver).with_context(|| format!("cannot write {RESOLVER}"))?;
    KERNEL.iter().try_for_each(|setting| keep(setting))?;
    command("ip", &["link", "set", "lo", "up"])?;
    command("ip", &["address", "add", &format!("{ADDRESS}/32"), "dev", "lo"])?;
    // Addresses of Services belong to no interface, and are changed only in packets that have a way to go.
    command("ip", &["route", "add", "default", "dev", "lo", "src", ADDRESS])?;
    fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("cannot switch on forwarding")
}

/// Keeps a setting of the kernel as it is, whatever is written to it in here: a file lies over it.
fn keep(setting: &str) -> Result<()> {
    let real = Path::new("/proc/sys").join(setting);
    let file = Path::new(HOME).join("kernel").join(setting.replace('/', "."));
    let value = fs::read(&real).with_context(|| format!("cannot read {}", real.display()))?;
    fs::write(&file, value).with_context(|| format!("cannot write {}", file.display()))?;
    command("mount", &["--bind", &file.to_string_lossy(), &real.to_string_lossy()])
}

/// Starts the node, and returns when it is Ready.
pub(super) async fn start(cluster: &Cluster, images: &Path) -> Result<()> {
    let assets = Assets::from_env()?;
    let runtime = machine::find("containerd").context("containerd is gone")?;
    write("containerd.toml", &containerd_config()?)?;
    write("plugins.d/10-pods.conflist", &network_config().to_string())?;
    cluster.run(&program("containerd", &runtime, vec![format!("--config={HOME}/containerd.toml")])).await?;
    wait::until("containerd to answer", READY_LIMIT, async || ctr(&["version"]).map_err(|e| format!("{e:#}"))).await?;
    for entry in fs::read_dir(images).with_context(|| format!("cannot read {}", images.display()))? {
        let path = entry?.path();
        ctr(&["--namespace=k8s.io", "images", "import", &path.to_string_lossy()])?;
    }
    write("kubelet.json", &kubelet_config().to_string())?;
    let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig().display());
    let kubelet = [
        kubeconfig.clone(),
        format!("--config={HOME}/kubelet.json"),
        format!("--root-dir={HOME}/kubelet"),
        format!("--cert-dir={HOME}/pki"),
        format!("--hostname-override={NAME}"),
        format!("--node-ip={ADDRESS}"),
    ];
    cluster.run(&program("kubelet", &assets.find(Tool::Kubelet)?, kubelet.into())).await?;
    let proxy = [
        kubeconfig,
        "--proxy-mode=iptables".to_owned(),
        format!("--cluster-cidr={POD_RANGE}"),
        format!("--hostname-override={NAME}"),
        // Limits of the whole machine, which are not ours to set.
        "--conntrack-max-per-core=0".to_owned(),
        "--conntrack-tcp-timeout-established=0".to_owned(),
        "--conntrack-tcp-timeout-close-wait=0".to_owned(),
    ];
    cluster.run(&program("kube-proxy", &assets.find(Tool::KubeProxy)?, proxy.into())).await?;
    until_ready(cluster).await
}

/// A program of the node. Programs of the cluster keep their files to themselves; but what these ones make, containers
/// read.
fn program(name: &str, executable: &Path, args: Vec<String>) -> Program {
    let own = ["-c", r#"umask 022 && exec "$@""#, name, &executable.to_string_lossy()].map(str::to_owned);
    Program {
        name: name.to_owned(),
        executable: "sh".into(),
        args: own.into_iter().chain(args).collect(),
        env: vec![("PATH".to_owned(), "/usr/sbin:/usr/bin:/sbin:/bin".to_owned())],
    }
}

async fn until_ready(cluster: &Cluster) -> Result<()> {
    let nodes: Api<Node> = Api::all(cluster.client()?);
    wait::until("the node to be Ready", READY_LIMIT, async || {
        for program in ["containerd", "kubelet", "kube-proxy"] {
            if cluster.process(program).is_none() {
                let log = fs::read_to_string(cluster.log(program)).unwrap_or_default();
                return Err(format!("{program} ended: {}", log.lines().last().unwrap_or_default()));
            }
        }
        let node = nodes.get(NAME).await.map_err(|error| error.to_string())?;
        let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready").ok_or("it says nothing yet")?;
        if ready.status == "True" { Ok(()) } else { Err(ready.message.clone().unwrap_or_default()) }
    })
    .await?;
    Ok(())
}

/// Runs a command of the container runtime's client.
pub(super) fn ctr(args: &[&str]) -> Result<()> {
    command("ctr", &[&["--address", &format!("{HOME}/containerd.sock")], args].concat())
}

fn command(program: &str, args: &[&str]) -> Result<()> {
    let path = machine::find(program).with_context(|| format!("there is no {program}"))?;
    let output = Command::new(path).args(args).output().with_context(|| format!("cannot run {program}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {} failed: {error}", args.join(" "));
    Ok(())
}

fn write(file: &str, content: &str) -> Result<()> {
    let path = Path::new(HOME).join(file);
    fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))
}

fn containerd_config() -> Result<String> {
    let plugins = machine::plugins().context("the network plugins are gone")?.display();
    Ok(format!(
        r#"version = 2
root = "{HOME}/containerd"
state = "{HOME}/state"

[grpc]
address = "{HOME}/containerd.sock"

[plugins."io.containerd.internal.v1.opt"]
path = "{HOME}/opt"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{REPOSITORY}/pause:{TAG}"
# A container of a machine may not take more weight than it has itself.
restrict_oom_score_adj = true
disable_apparmor = true
disable_hugetlb_controller = true
tolerate_missing_hugetlb_controller = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{HOME}/plugins.d"
"#
    ))
}

/// Each pod has a link of its own to the node, so that every packet passes the rules of kube-proxy.
fn network_config() -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [{
            "type": "ptp",
            "ipMasq": false,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": POD_RANGE}]],
                "routes": [{"dst": "0.0.0.0/0"}],
                "dataDir": format!("{HOME}/addresses"),
            },
        }],
    })
}

fn kubelet_config() -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": format!("unix://{HOME}/containerd.sock"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", machine::CGROUP),
        "failCgroupV1": false,
        "failSwapOn": false,
        // No other process is in this network.
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "podLogsDir": format!("{HOME}/logs"),
        "resolvConf": RESOLVER,
        "volumePluginDir": format!("{HOME}/volume-plugins"),
        "evictionHard": {"memory.available": "50Mi"},
        "imageGCHighThresholdPercent": 100,
        // An image that was imported is also pulled, from the registry of a check; its first name stays usable.
        "imagePullCredentialsVerificationPolicy": "NeverVerify",
        "readOnlyPort": 0,
        "nodeStatusUpdateFrequency": "5s",
        "cpuManagerPolicy": "none",
    })
}
