//! Rights of this controller, as data. The role of its ServiceAccount is generated from this list.

use api_types::GROUP;
use controller_kit::{
    access::{Access, Verb},
    device_claims, events, pods,
};
use k8s_openapi::Resource;
use rendering::LeaderWorkerSet;

use super::image_build::settings::CONFIG_MAP;
use crate::component::model::PodGroup;

/// Objects that the controller makes.
const fn own(group: &'static str, resource: &'static str, why: &'static str) -> Access {
    Access::new(group, resource, Verb::OWN, why)
}

/// Objects that the controller only reads.
const fn cached(group: &'static str, resource: &'static str, why: &'static str) -> Access {
    Access::new(group, resource, Verb::CACHE, why)
}

/// Every right of the controller, and why it needs it.
pub const ACCESS: &[Access] = &[
    cached(GROUP, "dynamocomponentdeployments", "the objects it serves"),
    Access::new(
        GROUP,
        "dynamocomponentdeployments",
        &[Verb::Patch],
        "removes the finalizer that the upstream operator left on an object that is being deleted",
    ),
    Access::sub(GROUP, "dynamocomponentdeployments", "status", &[Verb::Patch], "writes the status of components"),
    Access::owner(GROUP, "dynamocomponentdeployments"),
    own("apps", "deployments", "the pods of a component; deleted when its replicas span nodes instead"),
    own(
        LeaderWorkerSet::GROUP,
        LeaderWorkerSet::URL_PATH_SEGMENT,
        "the pods of a component whose replicas span nodes; deleted when they no longer do",
    ),
    Access::new(
        PodGroup::GROUP,
        PodGroup::URL_PATH_SEGMENT,
        &[Verb::Get, Verb::List, Verb::Watch, Verb::Delete],
        "removes what operators that made a LeaderWorkerSet for each replica have left",
    ),
    own("", "services", "the name of a component; deleted when discovery no longer needs it"),
    own("networking.k8s.io", "ingresses", "the way in to a frontend; deleted when the frontend needs none"),
    own(
        "networking.istio.io",
        "virtualservices",
        "the way in to a frontend through Istio; deleted when the frontend needs none",
    ),
    own(
        "autoscaling",
        "horizontalpodautoscalers",
        "scale standalone components whose autoscaling is enabled in v1alpha1; deleted when it is disabled",
    ),
    cached(GROUP, "dynamocheckpoints", "the checkpoints it makes, and from which components start"),
    Access::new(
        GROUP,
        "dynamocheckpoints",
        &[Verb::Patch],
        "removes the finalizer of a checkpoint that is being deleted, once what it kept is removed",
    ),
    Access::sub(GROUP, "dynamocheckpoints", "status", &[Verb::Patch], "writes the status of checkpoints"),
    Access::owner(GROUP, "dynamocheckpoints"),
    cached(GROUP, "dynamocomponents", "the images it builds"),
    Access::sub(GROUP, "dynamocomponents", "status", &[Verb::Patch], "writes the status of image builds"),
    Access::owner(GROUP, "dynamocomponents"),
    own(GROUP, "podsnapshots", "requests the capture of a pod, and withdraws requests for other versions"),
    own("batch", "jobs", "the pod that is captured, the removal of what a checkpoint kept, and builds of images"),
    cached(
        "",
        "pods",
        "finds the pod that is captured and that of a build that failed; says why the pods of a workload, a build or a \
         capture do not come up, and looks at them only then",
    ),
    Access::sub("", "pods", "log", &[Verb::Get], "reads the end of the log of a failed build for the condition"),
    device_claims::READS_TEMPLATES,
    device_claims::READS_CLAIMS,
    device_claims::READS_CLASSES,
    cached("apps", "daemonsets", "reads the checkpoint storage of the agents that take and restore checkpoints"),
    Access::new(
        "",
        "persistentvolumeclaims",
        &[Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Patch],
        "creates the PersistentVolumeClaim for checkpoints if the configuration requests it; never deletes one",
    ),
    cached(
        "",
        "secrets",
        "finds image pull secrets by registry, keeps host names only, and reports missing ones; reads the \
         one with which an image is looked for in its registry",
    ),
    cached(
        "",
        "serviceaccounts",
        "finds the accounts that administrators label for component pods and for builds; only metadata is read",
    ),
    pods::ACCESS,
    events::ACCESS,
    Access::named("", "configmaps", &[CONFIG_MAP], &[Verb::Get], "defaults for builds of images"),
];

#[cfg(test)]
mod tests {
    use controller_kit::access::role;
    use expect_test::expect;

    use super::ACCESS;

    #[test]
    #[expect(clippy::too_many_lines, reason = "a snapshot")]
    fn the_role_grants_what_is_needed_and_no_more() {
        expect![[r#"
            apiVersion: rbac.authorization.k8s.io/v1
            kind: Role
            metadata:
              name: r
              namespace: team
            rules:
            - apiGroups:
              - ""
              resources:
              - pods/log
              verbs:
              - get
            - apiGroups:
              - ""
              resources:
              - pods
              - secrets
              - serviceaccounts
              verbs:
              - get
              - list
              - watch
            - apiGroups:
              - ""
              resources:
              - persistentvolumeclaims
              verbs:
              - get
              - list
              - watch
              - create
              - patch
            - apiGroups:
              - ""
              resources:
              - services
              verbs:
              - get
              - list
              - watch
              - create
              - patch
              - delete
            - apiGroups:
              - ""
              resources:
              - events
              verbs:
              - list
            - apiGroups:
              - apps
              resources:
              - daemonsets
              verbs:
              - get
              - list
              - watch
            - apiGroups:
              - apps
              resources:
              - deployments
              verbs:
              - get
              - list
              - watch
              - create
              - patch
              - delete
            - apiGroups:
              - autoscaling
              resources:
              - horizontalpodautoscalers
              verbs:
              - get
              - list
              - watch
              - create
              - patch
              - delete
            - apiGroups:
              - batch
              resources:
              - jobs
              verbs:
              - get
              - list
              - watch
              - create
              - patch
              - delete
            - apiGroups:
              - events.k8s.io
              resources:
              - events
              verbs:
              - create
              - patch
            - apiGroups:
              - leaderworkerset.x-k8s.io
              resources:
              - leaderworkersets
              verbs:
              - get
              - list
              - watch
              - create
              - patch
              - delete
            - apiGroups:
              - networking.istio.io
              resources:
              - virtualservices
              verbs:
              - get
              - list
              - watch
              - create
              - patch
              - delete
            - apiGroups:
              - networking.k8s.io
              resources:
              - ingresses
              verbs:
              - get
              - list
              - watch
              - create
              - patch
              - delete
            - apiGroups:
              - nvidia.com
              resources:
              - dynamocomponents
              verbs:
              - get
              - list
              - watch
            - apiGroups:
              - nvidia.com
              resources:
              - podsnapshots
              verbs:
              - get
              - list
              - watch
              - create
              - patch
              - delete
            - apiGroups:
              - nvidia.com
              resources:
              - dynamocheckpoints
              - dynamocomponentdeployments
              verbs:
              - get
              - list
              - watch
              - patch
            - apiGroups:
              - nvidia.com
              resources:
              - dynamocheckpoints/finalizers
              - dynamocomponentdeployments/finalizers
              - dynamocomponents/finalizers
              verbs:
              - update
            - apiGroups:
              - nvidia.com
              resources:
              - dynamocheckpoints/status
              - dynamocomponentdeployments/status
              - dynamocomponents/status
              verbs:
              - patch
            - apiGroups:
              - resource.k8s.io
              resources:
              - deviceclasses
              - resourceclaims
              - resourceclaimtemplates
              verbs:
              - get
            - apiGroups:
              - scheduling.volcano.sh
              resources:
              - podgroups
              verbs:
              - get
              - list
              - watch
              - delete
            - apiGroups:
              - ""
              resourceNames:
              - dynamo-image-builder-config
              resources:
              - configmaps
              verbs:
              - get
            - apiGroups:
              - coordination.k8s.io
              resourceNames:
              - dynamo-operator-namespace-scope
              resources:
              - leases
              verbs:
              - get
              - list
              - watch
        "#]]
        .assert_eq(&serde_saphyr::to_string(&role("r", Some("team"), ACCESS)).unwrap());
    }
}
