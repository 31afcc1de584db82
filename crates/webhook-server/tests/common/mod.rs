//! A control plane whose API server calls webhook servers of ours: the programs as processes, with their own rights
//! only.

#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(dead_code, reason = "each test program uses a part")]

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Client, Config,
    api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use test_cluster::{Cluster, Options, Program, Signal, TestNamespace, wait};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use webhook_server::access::CA_CONFIG_MAP;

/// Generous, because a whole test run may share two cores.
pub const LIMIT: Duration = Duration::from_secs(90);
/// Name of the Secret with the certificates.
pub const CERTIFICATES: &str = "webhook-server-cert";
const SERVICE: &str = "webhook";
const BINARY: &str = env!("CARGO_BIN_EXE_webhook-server");

/// The operator, installed in a namespace of its own.
pub struct Install {
    pub cluster: &'static Cluster,
    pub namespace: String,
    kubeconfig: PathBuf,
    /// Port that the API server calls.
    pub front: u16,
    /// Time that stopping replicas wait for clients to close connections.
    pub idle_connection_seconds: u16,
    /// Further flags of replicas.
    pub args: Vec<String>,
}

/// One process.
#[derive(Clone)]
pub struct Replica {
    program: Program,
    pub webhook: SocketAddr,
    pub health: SocketAddr,
}

/// Starts a control plane whose CRDs are converted by the Service of an install in this namespace, at this port.
pub async fn start_cluster(namespace: &str, front: u16) -> &'static Cluster {
    start_cluster_with(namespace, front, vec![]).await
}

/// [`start_cluster`] with further flags of the API server.
pub async fn start_cluster_with(namespace: &str, front: u16, apiserver_args: Vec<String>) -> &'static Cluster {
    let service = format!("{namespace}/{SERVICE}:{front}").parse().unwrap();
    let crds = api_types::crds::all_converted_by(&service).unwrap();
    let crds = crds.iter().map(|crd| serde_json::to_value(crd).unwrap()).collect();
    // Ends with the process.
    Box::leak(Box::new(Cluster::start(Options { crds, apiserver_args, ..Options::default() }).await.unwrap()))
}

impl Install {
    /// Accounts, roles and the Service; no process yet.
    pub async fn new(cluster: &'static Cluster, namespace: &str, front: u16) -> Self {
        let mut role = printed(&["access"]).remove(0);
        role["metadata"]["name"] = json!(format!("webhook-server-{namespace}"));
        // The chart puts the names of its configurations in their place, too.
        for rule in role["rules"].as_array_mut().unwrap() {
            for kind in ["validating", "mutating"] {
                if rule["resourceNames"][0] == format!("dynamo-operator-{kind}") {
                    rule["resourceNames"] =
                        json!([format!("{namespace}-{kind}"), format!("{namespace}-{kind}-{namespace}")]);
                }
            }
        }
        Self::with_role(cluster, namespace, front, role).await
    }

    /// [`Self::new`] for an install that serves its own namespace and has no right beyond it.
    pub async fn of_its_namespace(cluster: &'static Cluster, namespace: &str, front: u16) -> Self {
        let role = printed(&["access", "--namespace", namespace]).remove(0);
        Self::with_role(cluster, namespace, front, role).await
    }

    async fn with_role(cluster: &'static Cluster, namespace: &str, front: u16, role: Value) -> Self {
        let own = printed(&["access", "--of", "own", "--operator-namespace", namespace]).remove(0);
        let binding = |role: &Value| {
            let mut binding = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": role["kind"].as_str().unwrap().to_owned() + "Binding",
                "metadata": role["metadata"],
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"], "name": role["metadata"]["name"],
                },
                "subjects": [{ "kind": "ServiceAccount", "name": "webhook-server", "namespace": namespace }],
            });
            binding["metadata"].as_object_mut().unwrap().remove("labels");
            binding
        };
        let rules = [binding(&role), binding(&own), role, own];
        let kubeconfig = cluster.service_account_kubeconfig(namespace, "webhook-server", &rules).await.unwrap();
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": SERVICE, "namespace": namespace },
            "spec": { "type": "ExternalName", "externalName": "127.0.0.1" },
        });
        cluster.apply(&[service]).await.unwrap();
        Self { cluster, namespace: namespace.to_owned(), kubeconfig, front, idle_connection_seconds: 0, args: vec![] }
    }

    /// Starts the program that sets the CA bundle of definitions, with its own rights only.
    pub async fn start_crds(&self) -> Program {
        let chart = "../../deploy/helm/dynamo-platform/charts/dynamo-operator/charts/crds/files/role.yaml";
        let role = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(chart)).unwrap();
        let role: Value = serde_saphyr::from_str(&role).unwrap();
        let own = json!([{
            "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [CA_CONFIG_MAP],
            "verbs": ["list", "watch"],
        }]);
        let group = "rbac.authorization.k8s.io";
        let subjects = json!([{ "kind": "ServiceAccount", "name": "crds", "namespace": self.namespace }]);
        let rules = [
            ("ClusterRole", json!({ "name": "crds" }), &role["rules"]),
            ("Role", json!({ "name": "crds", "namespace": self.namespace }), &own),
        ];
        let rules = rules.map(|(kind, metadata, rules)| {
            let binding = json!({
                "apiVersion": format!("{group}/v1"), "kind": format!("{kind}Binding"), "metadata": metadata,
                "roleRef": { "apiGroup": group, "kind": kind, "name": "crds" }, "subjects": subjects,
            });
            [
                json!({ "apiVersion": format!("{group}/v1"), "kind": kind, "metadata": metadata, "rules": rules }),
                binding,
            ]
        });
        let kubeconfig =
            self.cluster.service_account_kubeconfig(&self.namespace, "crds", &rules.concat()).await.unwrap();
        let program = Program {
            name: "crds".to_owned(),
            executable: crds(),
            args: vec![
                "serve".to_owned(),
                "--bundle-only".to_owned(),
                format!("--kubeconfig={}", kubeconfig.display()),
                format!("--webhook-service={}/{SERVICE}:{}", self.namespace, self.front),
                format!("--ca-config-map={}/{CA_CONFIG_MAP}", self.namespace),
            ],
            env: vec![],
        };
        self.cluster.run(&program).await.unwrap();
        program
    }

    /// Registers the webhooks at the API server; with `only`, for objects of that namespace only.
    pub async fn configure(&self, only: Option<&str>) {
        let names = [format!("--operator-namespace={}", self.namespace), format!("--service-name={SERVICE}")];
        let name = format!("--name={}", self.namespace);
        let port = format!("--port={}", self.front);
        let mut args = vec!["configurations", &names[0], &names[1], &name, &port];
        args.extend(only.iter().flat_map(|namespace| ["--namespace", namespace]));
        self.cluster.apply(&printed(&args)).await.unwrap();
    }

    /// Starts a process at an address, and does not wait for it.
    pub async fn start_at(&self, webhook: SocketAddr, configuration: Option<&Value>) -> Replica {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("webhook-server-{}-{}", self.namespace, COUNT.fetch_add(1, Ordering::Relaxed));
        let health = address(test_cluster::free_port().unwrap());
        let mut args = vec![
            format!("--kubeconfig={}", self.kubeconfig.display()),
            format!("--operator-namespace={}", self.namespace),
            format!("--service-name={SERVICE}"),
            format!("--webhook-address={webhook}"),
            format!("--health-address={health}"),
            format!("--metrics-address={health}"),
            "--log-format=text".to_owned(),
            format!("--idle-connection-seconds={}", self.idle_connection_seconds),
            format!("--operator-accounts=system:serviceaccount:{}:graph-controller", self.namespace),
        ];
        args.extend_from_slice(&self.args);
        let path = self.cluster.dir().join(format!("{name}.json"));
        let mut all = json!({
            "apiVersion": "operator.config.dynamo.nvidia.com/v1alpha1", "kind": "OperatorConfiguration",
        });
        all.as_object_mut().unwrap().extend(configuration.and_then(Value::as_object).cloned().unwrap_or_default());
        // Tests read them without a token, at the address of the probes.
        all["server"]["metrics"]["secure"] = json!(false);
        std::fs::write(&path, all.to_string()).unwrap();
        args.push(format!("--config={}", path.display()));
        let replica =
            Replica { program: Program { name, executable: BINARY.into(), args, env: vec![] }, webhook, health };
        self.cluster.run(&replica.program).await.unwrap();
        replica
    }

    /// Starts a process where the API server calls, and waits until it is ready.
    pub async fn start(&self) -> Replica {
        let replica = self.start_at(address(self.front), None).await;
        self.until_ready(&replica).await;
        replica
    }

    /// The same at another address.
    pub async fn start_beside(&self) -> Replica {
        let replica = self.start_at(address(test_cluster::free_port().unwrap()), None).await;
        self.until_ready(&replica).await;
        replica
    }

    /// A client with the rights of the server, which is not the server in the audit log.
    pub async fn impersonated(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(self.cluster.kubeconfig()).unwrap();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        config.auth_info.impersonate = Some(format!("system:serviceaccount:{}:webhook-server", self.namespace));
        Client::try_from(config).unwrap()
    }

    pub async fn until_ready(&self, replica: &Replica) {
        wait::until("a replica to be ready", LIMIT, async || replica.ready().await).await.unwrap();
    }

    pub async fn stop(&self, replica: &Replica, signal: Signal) {
        self.cluster.stop_program(&replica.program.name, signal).await.unwrap();
    }

    /// Signals a replica to stop, and does not wait for its end.
    pub fn send_stop(&self, replica: &Replica) {
        let process = self.cluster.process(&replica.program.name).unwrap();
        let kill = format!("kill {}", process.pid);
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    pub fn pid(&self, replica: &Replica) -> u32 {
        self.cluster.process(&replica.program.name).unwrap().pid
    }

    pub fn runs(&self, replica: &Replica) -> bool {
        self.cluster.process(&replica.program.name).is_some()
    }

    pub async fn start_again(&self, replica: &Replica) {
        self.cluster.run(&replica.program).await.unwrap();
    }

    /// The log of a process.
    pub fn log(&self, replica: &Replica) -> String {
        std::fs::read_to_string(self.cluster.log(&replica.program.name)).unwrap_or_default()
    }

    pub fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.cluster.client().unwrap(), &self.namespace)
    }

    /// The value of a key of the certificates' Secret; empty if it is not there.
    pub async fn stored(&self, key: &str) -> Vec<u8> {
        let secret = self.secrets().get_opt(CERTIFICATES).await.unwrap();
        let data = secret.and_then(|secret| secret.data).unwrap_or_default();
        data.get(key).map(|value| value.0.clone()).unwrap_or_default()
    }

    /// A client with the CA of the Secret as its trust root, which calls a replica as the API server does.
    pub async fn client_of(&self, replica: &Replica) -> Client {
        let ca = self.stored("ca.crt").await;
        let mut config = Config::new(format!("https://{}", replica.webhook).parse().unwrap());
        config.root_cert = Some(
            <rustls::pki_types::CertificateDer<'_> as rustls::pki_types::pem::PemObject>::pem_slice_iter(&ca)
                .map(|der| der.unwrap().to_vec())
                .collect(),
        );
        config.tls_server_name = Some(format!("{SERVICE}.{}.svc", self.namespace));
        config.default_retry = false;
        config.proxy_url = None;
        Client::try_from(config).unwrap()
    }

    /// Returns once the API server gets answers about graphs of a namespace, in a version.
    pub async fn until_answering(&self, namespace: &str, version: &str) {
        let (api, mut graph) = graphs(self.cluster.client().unwrap(), namespace, version);
        graph.metadata.name = Some("dry-run-only".to_owned());
        let params = kube::api::PostParams { dry_run: true, ..Default::default() };
        wait::until("the API server to get answers", LIMIT, async || match api.create(&params, &graph).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code < 500 => Ok(()),
            Err(error) => Err(error.to_string()),
        })
        .await
        .unwrap();
    }
}

impl Replica {
    /// Fails with what the replica waits for. Asked often, so in the plainest HTTP.
    pub async fn ready(&self) -> Result<(), String> {
        let answer = self.get("/readyz").await.map_err(|error| error.to_string())?;
        let status = answer.lines().next().unwrap_or_default();
        if status.split(' ').nth(1) == Some("200") { Ok(()) } else { Err(answer) }
    }

    /// The answer at a path, with its head.
    pub async fn get(&self, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(self.health).await?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }
}

pub fn resource(kind: &str, version: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(api_types::GROUP, version, kind))
}

/// Objects of a kind of ours, in a version.
pub fn objects(namespace: &TestNamespace, kind: &str, version: &str) -> Api<DynamicObject> {
    Api::namespaced_with(namespace.client(), namespace.name(), &resource(kind, version))
}

/// A new object after its first write without a change, with which the API server stores the default of the status.
pub async fn stored(api: &Api<DynamicObject>, name: &str) -> DynamicObject {
    api.patch(name, &PatchParams::default(), &Patch::Merge(json!({}))).await.unwrap()
}

/// Graphs of a namespace in a version, and an empty one.
pub fn graphs(client: Client, namespace: &str, version: &str) -> (Api<DynamicObject>, DynamicObject) {
    let resource = resource("DynamoGraphDeployment", version);
    let mut graph = DynamicObject::new("", &resource);
    graph.data = match version {
        "v1alpha1" => json!({ "spec": { "services": {} } }),
        _ => json!({ "spec": { "components": [] } }),
    };
    (Api::namespaced_with(client, namespace, &resource), graph)
}

pub fn address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// The program `crds` beside this test's own: `target/<profile>/deps/<test>` → `target/<profile>/crds`.
fn crds() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let path = own.parent().and_then(Path::parent).unwrap().join("crds");
    assert!(path.exists(), "{} is missing; run: cargo build -p api-types --features cli", path.display());
    path
}

/// Returns the documents that the program prints with these arguments.
fn printed(args: &[&str]) -> Vec<Value> {
    let output = Command::new(BINARY).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap()
}
