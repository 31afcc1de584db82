//! Data of the legacy API in v1alpha1 about components whose image is built from an archive, and about their own
//! volumes.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::{PreservedClaim, Texts, field, read};
use crate::{
    annotations,
    conversion::{
        COMPONENT_DEPLOYMENT, GRAPH,
        value::{Object, object, text},
    },
    labels,
};

/// Data of the legacy API about a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreservedGraph {
    /// Source from which the image of all components is built: `name:version`.
    pub source: Option<String>,
    /// Data about single components, by their names. Components without such data are left out.
    pub services: BTreeMap<String, PreservedService>,
}

/// Data of the legacy API about a component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreservedService {
    /// Source from which its image is built: `name:version`. Only set for a standalone component.
    pub source: Option<String>,
    /// Service that is started from the image: `module:Service`.
    pub tag: Option<String>,
    /// A volume of its own.
    pub volume: Option<PreservedVolume>,
    /// Additional privileges of its pods. Only set where its image is built: elsewhere the annotations never had an
    /// effect.
    pub privileges: BTreeSet<Privilege>,
}

/// Additional privilege of pods, granted by annotations of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Privilege {
    /// Everything that the node's kernel lets root do.
    Privileged,
    /// Trace processes.
    Ptrace,
    /// Run as root.
    Root,
    /// Share the node's memory for processes to talk by.
    HostIpc,
    /// Share the node's network.
    HostNetwork,
    /// See the node's processes.
    HostPid,
}

impl Privilege {
    const ANNOTATIONS: [(&str, Self); 6] = [
        (annotations::CONTAINER_PRIVILEGED, Self::Privileged),
        (annotations::CONTAINER_PTRACE, Self::Ptrace),
        (annotations::CONTAINER_AS_ROOT, Self::Root),
        (annotations::HOST_IPC, Self::HostIpc),
        (annotations::HOST_NETWORK, Self::HostNetwork),
        (annotations::HOST_PID, Self::HostPid),
    ];

    fn of(service: &Object) -> BTreeSet<Self> {
        let is_on = |key: &str| object(service, "annotations").and_then(|all| text(all, key)) == Some(labels::TRUE);
        Self::ANNOTATIONS.into_iter().filter(|(key, _)| is_on(key)).map(|(_, privilege)| privilege).collect()
    }
}

/// A volume of one component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreservedVolume {
    /// The claim; its name may be empty.
    #[serde(flatten)]
    pub claim: PreservedClaim,
    /// Path at which it is mounted.
    pub mount_point: String,
    /// The mount point under its other name.
    pub mount_path: String,
}

/// Access mode of a claim that is created where none is given; a claim needs one.
const ACCESS_MODE: &str = "ReadWriteOnce";

impl PreservedVolume {
    /// Reads the volume of a service. Where the image is built from an archive, a claim with a size is created unless
    /// `create` is set: the legacy API promised it.
    fn of(spec: &Object, is_built: bool) -> Option<Self> {
        let fields = object(spec, "pvc").filter(|fields| !fields.is_empty())?;
        let mut volume: Self = field(spec, "pvc");
        let claim = &mut volume.claim;
        claim.create |= is_built && fields.get("create").is_none_or(Value::is_null) && !claim.size.is_empty();
        if claim.volume_access_mode.is_empty() {
            ACCESS_MODE.clone_into(&mut claim.volume_access_mode);
        }
        Some(volume)
    }
}

impl PreservedGraph {
    /// Annotation that keeps it on a `DynamoGraphDeployment`.
    pub const ANNOTATION: &str = "nvidia.com/dgd-spec";

    /// Reads the data that the annotations of a v1beta1 `DynamoGraphDeployment` keep; `None` if there is none.
    pub fn of(annotations: &Texts) -> Option<Self> {
        let spec = read(annotations, GRAPH)?;
        let source = text(&spec, "dynamoComponent").or(text(&spec, "dynamoGraph")).map(ToOwned::to_owned);
        let named = object(&spec, "services").into_iter().flatten();
        let said = named.filter_map(|(name, service)| {
            // Only a component on its own is built from something of its own.
            let said = PreservedService::of(service.as_object()?, source.is_some());
            (said != PreservedService::default()).then(|| (name.clone(), said))
        });
        let graph = Self { services: said.collect(), source };
        (graph != Self::default()).then_some(graph)
    }
}

impl PreservedService {
    /// Reads the data that the annotations of a v1beta1 `DynamoComponentDeployment` keep; `None` if there is none.
    pub fn of_component_deployment(annotations: &Texts) -> Option<Self> {
        let spec = read(annotations, COMPONENT_DEPLOYMENT)?;
        let source = text(&spec, "dynamoComponent").map(ToOwned::to_owned);
        let said = Self::of(&spec, source.is_some());
        let said = Self { source, ..said };
        (said != Self::default()).then_some(said)
    }

    /// But for what its image is built from.
    fn of(spec: &Object, is_built: bool) -> Self {
        Self {
            source: None,
            tag: text(spec, "dynamoTag").map(ToOwned::to_owned),
            volume: PreservedVolume::of(spec, is_built),
            privileges: if is_built { Privilege::of(spec) } else { BTreeSet::new() },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::conversion::{ApiVersion, convert};

    fn kept_of(kind: &str, spec: &Value) -> Texts {
        let object =
            json!({"apiVersion": "nvidia.com/v1alpha1", "kind": kind, "metadata": {"name": "x"}, "spec": spec});
        let beta = convert(object.clone(), ApiVersion::V1Beta1).unwrap();
        assert_eq!(convert(beta.clone(), ApiVersion::V1Alpha1).unwrap(), object, "comes back");
        serde_json::from_value(beta["metadata"]["annotations"].clone()).unwrap_or_default()
    }

    fn volume() -> PreservedVolume {
        let claim = PreservedClaim {
            name: "data".to_owned(),
            create: true,
            size: "1Gi".to_owned(),
            storage_class: "fast".to_owned(),
            volume_access_mode: "ReadWriteOnce".to_owned(),
        };
        PreservedVolume { claim, mount_point: "/data".to_owned(), mount_path: String::new() }
    }

    fn service() -> Value {
        json!({
            "dynamoTag": "graphs.agg:Frontend", "runMode": { "standalone": true }, "replicas": 2,
            "pvc": { "name": "data", "create": true, "size": "1Gi", "storageClass": "fast",
                "volumeAccessMode": "ReadWriteOnce", "mountPoint": "/data" },
            "externalServices": { "Worker": { "deploymentSelectorKey": "name", "deploymentSelectorValue": "w" } },
        })
    }

    #[test]
    fn saved_data_of_a_graph_of_the_legacy_api() {
        for field in ["dynamoComponent", "dynamoGraph"] {
            let kept = kept_of(
                GRAPH,
                &json!({ field: "chat:v1", "services": { "Frontend": service(), "Worker": { "replicas": 1 } } }),
            );
            let said = PreservedService {
                tag: Some("graphs.agg:Frontend".to_owned()),
                volume: Some(volume()),
                ..PreservedService::default()
            };
            let services = BTreeMap::from([("Frontend".to_owned(), said)]);
            let expected = PreservedGraph { source: Some("chat:v1".to_owned()), services };
            assert_eq!(PreservedGraph::of(&kept), Some(expected));
        }
    }

    /// Defect: `mountPath`, by which the document of the legacy API names it, was pruned, and a claim with a size was
    /// not created.
    #[test]
    fn a_claim_with_a_size_is_created_where_an_image_is_built_unless_the_user_sets_create() {
        let volume = |source: bool, create: Option<bool>, size: &str| {
            let mut pvc = json!({ "name": "models", "mountPath": "/models", "size": size });
            if let Some(create) = create {
                pvc["create"] = json!(create);
            }
            let mut spec = json!({ "services": { "Worker": { "pvc": pvc } } });
            if source {
                spec["dynamoComponent"] = json!("chat:v1");
            }
            PreservedGraph::of(&kept_of(GRAPH, &spec)).unwrap().services["Worker"].volume.clone().unwrap()
        };
        for (source, create, size, created) in [
            (true, None, "100Gi", true),
            (true, None, "", false),
            (true, Some(false), "100Gi", false),
            (false, None, "100Gi", false),
            (false, Some(true), "", true),
        ] {
            let volume = volume(source, create, size);
            assert_eq!(volume.claim.create, created, "{source} {create:?} {size:?}");
            assert_eq!((volume.mount_path.as_str(), volume.mount_point.as_str()), ("/models", ""));
            assert_eq!(volume.claim.volume_access_mode, "ReadWriteOnce", "a claim without a mode is refused");
        }
    }

    #[test]
    fn saved_data_of_a_component_of_the_legacy_api() {
        let mut alone = service();
        alone["dynamoComponent"] = json!("chat:v1");
        let said = PreservedService::of_component_deployment(&kept_of(COMPONENT_DEPLOYMENT, &alone)).unwrap();
        assert_eq!((said.source.as_deref(), said.volume), (Some("chat:v1"), Some(volume())));
    }

    #[test]
    fn privileges_are_those_of_a_built_image_alone() {
        let given = json!({ "nvidia.com/enable-container-ptrace": "true", "nvidia.com/enable-host-ipc": "true",
            "nvidia.com/enable-host-pid": "false", "other": "true" });
        let services = json!({ "Worker": { "annotations": given } });
        let expected = BTreeSet::from([Privilege::Ptrace, Privilege::HostIpc]);
        let built = kept_of(GRAPH, &json!({ "dynamoGraph": "chat:v1", "services": services }));
        assert_eq!(PreservedGraph::of(&built).unwrap().services["Worker"].privileges, expected);
        assert_eq!(PreservedGraph::of(&kept_of(GRAPH, &json!({ "services": services }))), None);
        let of = |spec: &Value| {
            PreservedService::of_component_deployment(&kept_of(COMPONENT_DEPLOYMENT, spec)).unwrap().privileges
        };
        let mut alone = json!({ "dynamoTag": "m:S", "annotations": given });
        assert_eq!(of(&alone), BTreeSet::new());
        alone["dynamoComponent"] = json!("chat:v1");
        assert_eq!(of(&alone), expected);
    }

    #[test]
    fn who_says_nothing_costs_nothing() {
        let graph = json!({ "pvcs": [{ "name": "a" }], "services": { "A": { "labels": { "a": "b" } } } });
        assert_eq!(PreservedGraph::of(&kept_of(GRAPH, &graph)), None);
        assert_eq!(PreservedGraph::of(&Texts::new()), None);
        assert_eq!(
            PreservedService::of_component_deployment(&kept_of(COMPONENT_DEPLOYMENT, &json!({ "labels": {} }))),
            None
        );
    }
}
