//! Parts of a cluster.

use serde_json::Value;

/// Composition of a cluster. The default is the smallest one in which objects have the usual life cycle: etcd, API
/// server and controller manager.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Controllers of Kubernetes that run.
    pub controllers: Controllers,
    /// Whether the scheduler runs. Without it Pods stay without a node.
    pub scheduler: bool,
    /// Number of fake nodes (`kwok-0`, `kwok-1`, …), on which Pods become Ready by themselves. Each has 64 CPUs, 1 TiB
    /// of memory, 8 GPUs (`nvidia.com/gpu`) and room for 1000 Pods. With 0 kwok does not run.
    pub kwok_nodes: u16,
    /// Whether the API server keeps an audit log (level `Metadata`, without the stage `RequestReceived`). It always
    /// does where [`AUDIT_DIR_ENV`](crate::AUDIT_DIR_ENV) is set.
    pub audit: bool,
    /// Further flags of the API server.
    pub apiserver_args: Vec<String>,
    /// CustomResourceDefinitions to apply before the controller manager starts, so that its garbage collector has
    /// them from the first moment; of later ones it learns only every 30 s.
    pub crds: Vec<Value>,
}

impl Options {
    /// A cluster on which Deployments become available: with scheduler and `nodes` fake nodes.
    #[must_use]
    pub fn with_nodes(nodes: u16) -> Self {
        Self { scheduler: true, kwok_nodes: nodes, ..Self::default() }
    }
}

/// Controllers of the controller manager that run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Controllers {
    /// Those that Kubernetes runs by default.
    #[default]
    All,
    /// Only these, by their names in `kube-controller-manager --controllers`.
    Only(Vec<String>),
    /// None: there is no controller manager.
    Off,
}

impl Controllers {
    /// Their names for the controller manager; empty when none is to run.
    pub(crate) fn names(&self) -> Vec<String> {
        match self {
            Self::All => vec!["*".to_owned()],
            Self::Only(names) => names.clone(),
            Self::Off => vec![],
        }
    }

    /// Whether every namespace gets its `default` ServiceAccount, without which Pods are refused.
    pub(crate) fn make_service_accounts(&self) -> bool {
        self.names().iter().any(|name| name == "*" || name == "serviceaccount-controller")
    }
}
