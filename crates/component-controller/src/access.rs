//! Rights of this controller, as data. The role of its ServiceAccount is generated from this list.

use controller_kit::{
    access::{Access, NamedAccess, Verb},
    claims, events, pods,
};
use k8s_openapi::Resource;
use rendering::LeaderWorkerSet;

use super::image_build::settings::CONFIG_MAP;
use crate::component::model::PodGroup;

/// Every right of the controller, and why it needs it.
pub const ACCESS: &[Access] = &[
    Access {
        group: api_types::GROUP,
        resource: "dynamocomponentdeployments",
        subresource: None,
        verbs: Verb::CACHE,
        why: "the objects it serves",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamocomponentdeployments",
        subresource: None,
        verbs: &[Verb::Patch],
        why: "removes the finalizer that the upstream operator left on an object that is being deleted",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamocomponentdeployments",
        subresource: Some("status"),
        verbs: &[Verb::Patch],
        why: "says how far a component is",
    },
    Access::owner(api_types::GROUP, "dynamocomponentdeployments"),
    Access {
        group: "apps",
        resource: "deployments",
        subresource: None,
        verbs: Verb::OWN,
        why: "the pods of a component; deleted when its replicas span nodes instead",
    },
    Access {
        group: LeaderWorkerSet::GROUP,
        resource: LeaderWorkerSet::URL_PATH_SEGMENT,
        subresource: None,
        verbs: Verb::OWN,
        why: "the pods of a component whose replicas span nodes; deleted when they no longer do",
    },
    Access {
        group: PodGroup::GROUP,
        resource: PodGroup::URL_PATH_SEGMENT,
        subresource: None,
        verbs: &[Verb::Get, Verb::List, Verb::Watch, Verb::Delete],
        why: "removes what operators that made a LeaderWorkerSet for each replica have left",
    },
    Access {
        group: "",
        resource: "services",
        subresource: None,
        verbs: Verb::OWN,
        why: "the name of a component; deleted when discovery no longer needs it",
    },
    Access {
        group: "networking.k8s.io",
        resource: "ingresses",
        subresource: None,
        verbs: Verb::OWN,
        why: "the way in to a frontend; deleted when the frontend needs none",
    },
    Access {
        group: "networking.istio.io",
        resource: "virtualservices",
        subresource: None,
        verbs: Verb::OWN,
        why: "the way in to a frontend through Istio; deleted when the frontend needs none",
    },
    Access {
        group: "autoscaling",
        resource: "horizontalpodautoscalers",
        subresource: None,
        verbs: Verb::OWN,
        why: "scale standalone components whose autoscaling is enabled in v1alpha1; deleted when it is disabled",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamocheckpoints",
        subresource: None,
        verbs: Verb::CACHE,
        why: "the checkpoints it makes, and from which components start",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamocheckpoints",
        subresource: None,
        verbs: &[Verb::Patch],
        why: "removes the finalizer of a checkpoint that is being deleted, once what it kept is removed",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamocheckpoints",
        subresource: Some("status"),
        verbs: &[Verb::Patch],
        why: "says how far a checkpoint is",
    },
    Access::owner(api_types::GROUP, "dynamocheckpoints"),
    Access {
        group: api_types::GROUP,
        resource: "dynamocomponents",
        subresource: None,
        verbs: Verb::CACHE,
        why: "the images it builds",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamocomponents",
        subresource: Some("status"),
        verbs: &[Verb::Patch],
        why: "says whether an image exists",
    },
    Access::owner(api_types::GROUP, "dynamocomponents"),
    Access {
        group: api_types::GROUP,
        resource: "podsnapshots",
        subresource: None,
        verbs: Verb::OWN,
        why: "asks for the capture of a pod, and takes back what is asked for another version",
    },
    Access {
        group: "batch",
        resource: "jobs",
        subresource: None,
        verbs: Verb::OWN,
        why: "the pod that is captured, the removal of what a checkpoint kept, and builds of images",
    },
    Access {
        group: "",
        resource: "pods",
        subresource: None,
        verbs: Verb::CACHE,
        why: "finds the pod that is captured and that of a build that failed; says why the pods of a workload, a build or a \
              capture do not come up, and looks at them only then",
    },
    Access {
        group: "",
        resource: "pods",
        subresource: Some("log"),
        verbs: &[Verb::Get],
        why: "reads the end of the log of a failed build for the condition",
    },
    claims::READS_TEMPLATES,
    claims::READS_CLAIMS,
    claims::READS_CLASSES,
    Access {
        group: "apps",
        resource: "daemonsets",
        subresource: None,
        verbs: Verb::CACHE,
        why: "the agents that take and restore checkpoints tell where they keep them",
    },
    Access {
        group: "",
        resource: "persistentvolumeclaims",
        subresource: None,
        verbs: &[Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Patch],
        why: "makes the claim that keeps checkpoints where an administrator asks for it; never deletes one",
    },
    Access {
        group: "",
        resource: "secrets",
        subresource: None,
        verbs: Verb::CACHE,
        why: "finds image pull secrets by registry, keeps host names only, and reports missing ones; reads the \
              one with which an image is looked for in its registry",
    },
    Access {
        group: "",
        resource: "serviceaccounts",
        subresource: None,
        verbs: Verb::CACHE,
        why: "finds the accounts that administrators label for component pods and for builds; only metadata is read",
    },
    pods::ACCESS,
    events::ACCESS,
];

/// Rights on single objects.
pub const NAMED: &[NamedAccess] = &[NamedAccess {
    group: "",
    resource: "configmaps",
    names: &[CONFIG_MAP],
    verbs: &[Verb::Get],
    why: "defaults for builds of images",
}];

#[cfg(test)]
mod tests {
    use controller_kit::access::{RoleScope, role_with};
    use expect_test::expect;

    use super::{ACCESS, NAMED};

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
        .assert_eq(&serde_saphyr::to_string(&role_with("r", RoleScope::Namespace("team"), ACCESS, NAMED)).unwrap());
    }
}
