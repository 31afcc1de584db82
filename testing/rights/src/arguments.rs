//! Reasons for rights that no request has shown.

use super::granted::Right;

/// Coverage of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// One run on a real node, with graphs of frontends and workers.
    Run,
    /// All tests on control planes, with every kind that is served.
    Tests,
    /// Nothing: the API server checks the right and logs no request for it.
    Never,
}

/// A reason for rights.
#[derive(Debug, Clone, Copy)]
pub(super) struct Argument {
    /// Programs that have them.
    pub(super) programs: &'static [&'static str],
    /// `verb,verb group/resource`, and a part of the only name where there is one; `*` is every verb.
    pub(super) rights: &'static [&'static str],
    /// Log that cannot show them.
    pub(super) reach: Reach,
    /// Reason for keeping them.
    pub(super) why: &'static str,
}

impl Argument {
    /// Whether this is the reason why a log of that reach does not show a right.
    pub(super) fn covers(&self, program: &str, right: &Right, reach: Reach) -> bool {
        let reaches = self.reach == reach || self.reach == Reach::Never;
        reaches && self.programs.contains(&program) && self.rights.iter().any(|text| is_about(text, right))
    }
}

/// Whether one of [`Argument::rights`] means a right.
pub(super) fn is_about(text: &str, right: &Right) -> bool {
    let group = if right.group.is_empty() { "core" } else { &right.group };
    let mut words = text.split(' ');
    let (verbs, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let verb = verbs == "*" || verbs.split(',').any(|verb| verb == right.verb);
    let name = words.next().is_none_or(|part| right.name.as_ref().is_some_and(|name| name.contains(part)));
    verb && name && path.split_once('/') == Some((group, &right.resource))
}

const GRAPHS: &[&str] = &["graph-controller"];
const COMPONENTS: &[&str] = &["component-controller"];
const BLOCKS: &str =
    "children block the deletion of their owner; the admission plugin OwnerReferencesPermissionEnforcement requires it";

/// Programs whose replicas share the namespaces.
const SHARDED: &[&str] = &["graph-controller", "component-controller", "model-controller"];
const MEMBERS: &[&str] = &["* coordination.k8s.io/leases -member-"];

/// Programs whose metrics are read.
const SCRAPED: &[&str] = &["graph-controller", "component-controller", "model-controller", "webhook-server"];
const REVIEWS: &[&str] =
    &["create authentication.k8s.io/tokenreviews", "create authorization.k8s.io/subjectaccessreviews"];
const SCRAPES: &str =
    "used when a client shows a token to read metrics; a test of the process that all are made of does";

/// All of them. One that is about no right of the chart is a fault, and a test finds it.
pub(super) const ARGUMENTS: &[Argument] = &[
    Argument {
        programs: GRAPHS,
        rights: &[
            "update nvidia.com/dynamographdeployments/finalizers",
            "update nvidia.com/dynamographdeploymentrequests/finalizers",
            "update nvidia.com/dynamocheckpoints/finalizers",
        ],
        reach: Reach::Never,
        why: BLOCKS,
    },
    Argument {
        programs: COMPONENTS,
        rights: &[
            "update nvidia.com/dynamocomponentdeployments/finalizers",
            "update nvidia.com/dynamocheckpoints/finalizers",
            "update nvidia.com/dynamocomponents/finalizers",
        ],
        reach: Reach::Never,
        why: BLOCKS,
    },
    Argument {
        programs: GRAPHS,
        rights: &["bind rbac.authorization.k8s.io/clusterroles", "bind rbac.authorization.k8s.io/roles"],
        reach: Reach::Never,
        why: "used when accounts of graphs, planners, endpoint pickers and profilers are bound to the roles of the chart",
    },
    Argument {
        programs: GRAPHS,
        rights: &[
            "* grove.io/podcliquesets",
            "* grove.io/podcliques",
            "* grove.io/podcliques/scale",
            "* grove.io/podcliquescalinggroups",
            "* grove.io/podcliquescalinggroups/scale",
            "* grove.io/clustertopologybindings",
            "* scheduling.run.ai/queues",
            "create,patch,delete core/services",
            "* networking.k8s.io/ingresses",
            "* networking.istio.io/virtualservices",
        ],
        reach: Reach::Run,
        why: "graphs on Grove and KAI, which a run does not have, and the ways in to them; Services of base models",
    },
    Argument {
        programs: GRAPHS,
        rights: &[
            "create,patch,delete core/configmaps",
            "* inference.networking.k8s.io/inferencepools",
            "* networking.istio.io/destinationrules",
            "delete rbac.authorization.k8s.io/rolebindings",
        ],
        reach: Reach::Run,
        why: "graphs with an endpoint picker or a planner, and gateways, which a run does not have",
    },
    Argument {
        programs: GRAPHS,
        rights: &[
            "create,patch,delete batch/jobs",
            "get core/persistentvolumeclaims",
            "list core/nodes",
            "create nvidia.com/dynamographdeployments",
            "get,list,watch,patch nvidia.com/dynamographdeploymentrequests",
            "patch nvidia.com/dynamographdeploymentrequests/status",
        ],
        reach: Reach::Run,
        why: "requests, which profile; a run has none",
    },
    Argument {
        programs: GRAPHS,
        rights: &[
            "get,create,patch core/persistentvolumeclaims",
            "create,patch,delete resource.k8s.io/resourceclaimtemplates",
            "get resource.k8s.io/resourceclaims",
            "get resource.k8s.io/deviceclasses",
            "create,patch,delete nvidia.com/dynamographdeploymentscalingadapters",
            "patch nvidia.com/dynamographdeploymentscalingadapters/status",
            "patch nvidia.com/dynamographdeployments",
        ],
        reach: Reach::Run,
        why: "graphs with claims, GPUs that processes share, or scaling adapters",
    },
    Argument {
        programs: GRAPHS,
        rights: &["create,patch,delete nvidia.com/dynamocheckpoints", "* apps/daemonsets"],
        reach: Reach::Run,
        why: "graphs whose workers start from checkpoints, which a run does not have",
    },
    Argument {
        programs: GRAPHS,
        rights: &["get core/nodes", "get,list,patch,delete core/pods"],
        reach: Reach::Run,
        why: "workers that exchange key-value caches, and standby engines, which a run does not have",
    },
    Argument {
        programs: GRAPHS,
        rights: &["create,patch,delete nvidia.com/dynamocomponents"],
        reach: Reach::Run,
        why: "graphs whose image is built, which a run does not have",
    },
    Argument {
        programs: &["graph-controller", "component-controller"],
        rights: &["create,patch,delete autoscaling/horizontalpodautoscalers"],
        reach: Reach::Run,
        why: "graphs and components of v1alpha1 with autoscaling, which a run does not have",
    },
    Argument {
        programs: &["graph-controller", "component-controller", "model-controller"],
        rights: &["create,patch events.k8s.io/events"],
        reach: Reach::Run,
        why: "which events there are, and whether they occur again, is chance in a short run",
    },
    Argument {
        programs: &["graph-controller", "component-controller"],
        rights: &["list core/events"],
        reach: Reach::Never,
        why: "looked at while a volume of a pod cannot be mounted, or no pods are made of a group; no test has a kubelet that says so",
    },
    Argument {
        programs: COMPONENTS,
        rights: &[
            "* leaderworkerset.x-k8s.io/leaderworkersets",
            "* scheduling.volcano.sh/podgroups",
            "delete apps/deployments",
            "delete core/services",
            "create,patch,delete networking.k8s.io/ingresses",
            "* networking.istio.io/virtualservices",
            "patch nvidia.com/dynamocomponentdeployments",
        ],
        reach: Reach::Run,
        why: "replicas that span nodes, frontends with a way in, what the Go operator left; a run has none of them",
    },
    Argument {
        programs: COMPONENTS,
        rights: &[
            "* nvidia.com/podsnapshots",
            "* nvidia.com/dynamocheckpoints",
            "patch nvidia.com/dynamocheckpoints/status",
            "* core/persistentvolumeclaims",
            "* apps/daemonsets",
            "* resource.k8s.io/resourceclaims",
            "* resource.k8s.io/resourceclaimtemplates",
            "* resource.k8s.io/deviceclasses",
            "create,patch,delete batch/jobs",
            "* core/pods",
        ],
        reach: Reach::Run,
        why: "checkpoints, GPUs that are claimed, and pods that do not come up; a run has none of them",
    },
    Argument {
        programs: COMPONENTS,
        rights: &["get core/configmaps", "get core/pods/log", "patch nvidia.com/dynamocomponents/status"],
        reach: Reach::Run,
        why: "builds of images, which a run does not have",
    },
    Argument {
        programs: &["model-controller"],
        rights: &["list core/pods"],
        reach: Reach::Run,
        why: "looked at when a worker says that it manages no adapters; those of a run do",
    },
    Argument { programs: SCRAPED, rights: REVIEWS, reach: Reach::Run, why: SCRAPES },
    Argument { programs: SCRAPED, rights: REVIEWS, reach: Reach::Tests, why: SCRAPES },
    Argument {
        programs: &["webhook-server"],
        rights: &[
            "create authorization.k8s.io/localsubjectaccessreviews",
            "get grove.io/clustertopologybindings",
            "get nvidia.com/dynamocheckpoints",
            "list apps/daemonsets",
            "create,patch,update core/secrets",
        ],
        reach: Reach::Run,
        why: "graphs that expose a frontend, name a topology or a checkpoint, or whose replicas span nodes, and the renewal of a \
              certificate; a run has none of them",
    },
    Argument {
        programs: &["webhook-server"],
        rights: &[
            "patch admissionregistration.k8s.io/validatingwebhookconfigurations",
            "patch admissionregistration.k8s.io/mutatingwebhookconfigurations",
        ],
        reach: Reach::Tests,
        why: "the configurations of a release by name, which those of tests do not have; a run has them",
    },
    Argument {
        programs: &["webhook-server"],
        rights: &["create,patch core/configmaps"],
        reach: Reach::Tests,
        why: "the ConfigMap of a release by name, which those of tests do not have; a run has it",
    },
    Argument {
        programs: &["crds"],
        rights: &["list,watch core/configmaps"],
        reach: Reach::Tests,
        why: "the ConfigMap of a release by name, which those of tests do not have; a run has it",
    },
    Argument {
        programs: &["lease-scope"],
        rights: &["mark core/namespaces"],
        reach: Reach::Never,
        why: "no verb of a request: the chart's admission policy for markers checks it with the authorizer",
    },
    Argument {
        programs: SHARDED,
        rights: MEMBERS,
        reach: Reach::Run,
        why: "Leases of replicas that share the namespaces; a run has one replica of each program",
    },
    Argument {
        programs: SHARDED,
        rights: MEMBERS,
        reach: Reach::Tests,
        why: "there are Leases for eight replicas, and tests have fewer of each program",
    },
    Argument {
        programs: &["lease-scope"],
        rights: &["delete coordination.k8s.io/leases"],
        reach: Reach::Run,
        why: "gives the marker back; helm takes the rights away before the pod has ended",
    },
    Argument {
        programs: &["crds"],
        rights: &[
            "patch apiextensions.k8s.io/customresourcedefinitions/status",
            "get,list,patch nvidia.com/dynamocheckpoints",
            "get,list,patch nvidia.com/dynamocomponentdeployments",
            "get,list,patch nvidia.com/dynamocomponents",
            "get,list,patch nvidia.com/dynamographdeploymentrequests",
            "get,list,patch nvidia.com/dynamographdeployments",
            "get,list,patch nvidia.com/dynamographdeploymentscalingadapters",
            "get,list,patch nvidia.com/dynamomodels",
            "get,list,patch nvidia.com/dynamoworkermetadatas",
            "patch nvidia.com/dynamocheckpoints/status",
            "patch nvidia.com/dynamocomponentdeployments/status",
            "patch nvidia.com/dynamocomponents/status",
            "patch nvidia.com/dynamographdeploymentrequests/status",
            "patch nvidia.com/dynamographdeployments/status",
            "patch nvidia.com/dynamographdeploymentscalingadapters/status",
            "patch nvidia.com/dynamomodels/status",
        ],
        reach: Reach::Run,
        why: "objects of an older version are stored anew in that of today; a new cluster has none",
    },
];
