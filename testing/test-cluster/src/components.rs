//! The programs of a cluster and their command lines.
//!
//! Their flags keep an idle cluster cheap and its end quick: no leader election, no profiling, no fsync, no
//! serving port without a client. Only the API server listens on TCP; etcd listens on sockets in the cluster's
//! directory, so that two clusters can never meet in one etcd. Paths are relative to that directory.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{options::Options, supervisor::Program};

pub(crate) const ETCD: &str = "etcd";
pub(crate) const APISERVER: &str = "kube-apiserver";
pub(crate) const SECOND_APISERVER: &str = "second-kube-apiserver";
pub(crate) const CONTROLLER_MANAGER: &str = "kube-controller-manager";
pub(crate) const SCHEDULER: &str = "kube-scheduler";
pub(crate) const KWOK: &str = "kwok";

pub(crate) const PKI_DIR: &str = "pki";
pub(crate) const KUBECONFIG: &str = "kubeconfig";
pub(crate) const SECOND_KUBECONFIG: &str = "second-kubeconfig";
pub(crate) const AUDIT_LOG: &str = "audit.log";
pub(crate) const AUDIT_POLICY: &str = "audit-policy.json";

/// Sockets of etcd. It requires `host:port` for its own address, hence the form; the whole is a file name.
const ETCD_CLIENTS: &str = "unix://etcd:0";
pub(crate) const ETCD_SOCKET: &str = "etcd:0";
const ETCD_PEERS: &str = "unix://peers:0";
const SERVICE_RANGE: &str = "10.96.0.0/16";
const POD_RANGE: &str = "10.244.0.0/16";

pub(crate) fn etcd(executable: PathBuf) -> Program {
    let args = [
        "--name=cluster".to_owned(),
        "--data-dir=etcd".to_owned(),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
        "--quota-backend-bytes=4294967296".to_owned(),
        "--auto-compaction-mode=periodic".to_owned(),
        "--auto-compaction-retention=5m".to_owned(),
        format!("--listen-client-urls={ETCD_CLIENTS}"),
        format!("--advertise-client-urls={ETCD_CLIENTS}"),
        format!("--listen-peer-urls={ETCD_PEERS}"),
        format!("--initial-advertise-peer-urls={ETCD_PEERS}"),
        format!("--initial-cluster=cluster={ETCD_PEERS}"),
    ];
    Program { name: ETCD.to_owned(), executable, args: args.into(), env: vec![] }
}

/// A second API server, which reaches etcd by a socket of its own.
pub(crate) fn second_apiserver(executable: PathBuf, port: u16, socket: &str) -> Program {
    let program = apiserver_on(executable, port, &Options::default(), &format!("unix://{socket}"));
    Program { name: SECOND_APISERVER.to_owned(), ..program }
}

pub(crate) fn apiserver(executable: PathBuf, port: u16, options: &Options) -> Program {
    apiserver_on(executable, port, options, ETCD_CLIENTS)
}

fn apiserver_on(executable: PathBuf, port: u16, options: &Options, etcd: &str) -> Program {
    let mut args = vec![
        format!("--etcd-servers={etcd}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--client-ca-file={PKI_DIR}/ca.crt"),
        format!("--tls-cert-file={PKI_DIR}/apiserver.crt"),
        format!("--tls-private-key-file={PKI_DIR}/apiserver.key"),
        format!("--service-account-key-file={PKI_DIR}/sa.pub"),
        format!("--service-account-signing-key-file={PKI_DIR}/sa.key"),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--allow-privileged=true".to_owned(),
        format!("--service-cluster-ip-range={SERVICE_RANGE}"),
        // Endpoints of the Service `kubernetes` may not hold a loopback address, so there are none.
        "--endpoint-reconciler-type=none".to_owned(),
        "--profiling=false".to_owned(),
        "--shutdown-delay-duration=0s".to_owned(),
    ];
    if options.audit {
        args.push(format!("--audit-policy-file={AUDIT_POLICY}"));
        args.push(format!("--audit-log-path={AUDIT_LOG}"));
        // Megabytes: one file, never rotated.
        args.push("--audit-log-maxsize=1000000".to_owned());
    }
    if !options.controllers.make_service_accounts() {
        args.push("--disable-admission-plugins=ServiceAccount".to_owned());
    }
    args.extend_from_slice(&options.apiserver_args);
    Program { name: APISERVER.to_owned(), executable, args, env: vec![] }
}

pub(crate) fn controller_manager(executable: PathBuf, controllers: &[String]) -> Program {
    let mut args = client_args();
    args.extend([
        format!("--controllers={}", controllers.join(",")),
        format!("--root-ca-file={PKI_DIR}/ca.crt"),
        format!("--service-account-private-key-file={PKI_DIR}/sa.key"),
        "--use-service-account-credentials=false".to_owned(),
        // Fake nodes fall silent when the machine is busy or the API server is stopped, and unlike a kubelet kwok does
        // not report the pods of a node that was given up as ready again.
        "--node-monitor-grace-period=30m".to_owned(),
    ]);
    Program { name: CONTROLLER_MANAGER.to_owned(), executable, args, env: vec![] }
}

pub(crate) fn scheduler(executable: PathBuf) -> Program {
    Program { name: SCHEDULER.to_owned(), executable, args: client_args(), env: vec![] }
}

pub(crate) fn kwok(executable: PathBuf, config: &Path) -> Program {
    let args = [
        format!("--kubeconfig={KUBECONFIG}"),
        format!("--config={}", config.display()),
        "--manage-all-nodes=true".to_owned(),
        "--node-ip=127.0.0.1".to_owned(),
        "--node-lease-duration-seconds=40".to_owned(),
        format!("--cidr={POD_RANGE}"),
    ];
    Program { name: KWOK.to_owned(), executable, args: args.into(), env: vec![] }
}

/// Returns the common arguments of controller manager and scheduler.
fn client_args() -> Vec<String> {
    vec![
        format!("--kubeconfig={KUBECONFIG}"),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--profiling=false".to_owned(),
        "--kube-api-qps=500".to_owned(),
        "--kube-api-burst=1000".to_owned(),
    ]
}

pub(crate) fn audit_policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "omitManagedFields": true,
        "rules": [
            // Who owned what is in Leases; a watch misses changes around a restart of the API server.
            {"level": "RequestResponse", "verbs": ["create", "update", "patch"],
                "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
            {"level": "Metadata"},
        ],
    })
}
