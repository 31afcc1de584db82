//! Storage of checkpoints: a volume that agents, captured pods and restored pods all mount.

use std::collections::BTreeMap;

use api_types::{labels, quantity};
use k8s_openapi::{
    api::{
        apps::v1::DaemonSet,
        core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::{CheckpointStorage, StorageSettings};
use crate::{metadata::named, pod::volumes::storage_claim_spec};

const VOLUME: &str = "pvc";
/// Kinds of storage that the configuration of the upstream operator has and that are not implemented.
const OTHERS: [&str; 2] = ["s3", "oci"];
const ACCESS_MODES: [&str; 2] = ["ReadWriteOnce", "ReadWriteMany"];
const AGENT_CONTAINER: &str = "agent";
const AGENT_VOLUME: &str = "checkpoints";

impl StorageSettings {
    /// The storage that the settings name; `None` if they name none.
    ///
    /// # Errors
    /// The first violation, which only an administrator can mend.
    pub fn storage(&self) -> Result<Option<CheckpointStorage>, String> {
        let kind = self.kind.trim();
        let texts = [&self.claim, &self.folder, &self.size, &self.storage_class, &self.access_mode];
        let says_something = self.create || texts.iter().any(|text| !text.trim().is_empty());
        if !says_something && (kind.is_empty() || OTHERS.contains(&kind)) {
            return Ok(None);
        }
        if !kind.is_empty() && kind != VOLUME {
            return Err(problem("type", &format!("is {kind:?}, which is not served"), "write pvc"));
        }
        let claim = self.claim.trim();
        if claim.is_empty() {
            return Err(problem("pvc.pvcName", "is empty", "name the claim that holds checkpoints"));
        }
        let folder = self.folder.trim();
        if !folder.starts_with('/') || folder.split('/').any(|part| part == "..") {
            let remedy = "give the absolute folder at which pods mount the claim";
            return Err(problem("pvc.basePath", &format!("is {folder:?}"), remedy));
        }
        let parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        Ok(Some(CheckpointStorage { claim: claim.to_owned(), folder: format!("/{}", parts.join("/")) }))
    }
}

/// The claim that is made where it is missing, without owner: checkpoints outlive the component that needed them first.
/// `None` if none is to be made.
///
/// # Errors
/// The first violation in the settings.
fn render_storage_claim(namespace: &str, settings: &StorageSettings) -> Result<Option<PersistentVolumeClaim>, String> {
    let Some(storage) = settings.storage()?.filter(|_| settings.create) else { return Ok(None) };
    let size = settings.size.trim();
    if quantity::nanos(size).is_none_or(|size| size <= 0) {
        return Err(problem("pvc.size", &format!("is {size:?}"), "give a size such as 100Gi"));
    }
    let mode = Some(settings.access_mode.trim()).filter(|mode| !mode.is_empty()).unwrap_or("ReadWriteMany");
    if !ACCESS_MODES.contains(&mode) {
        let remedy = "write ReadWriteMany or ReadWriteOnce";
        return Err(problem("pvc.accessMode", &format!("is {mode:?}"), remedy));
    }
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    Ok(Some(PersistentVolumeClaim {
        metadata: ObjectMeta {
            labels: Some(BTreeMap::from([
                label(labels::APP_NAME, "dynamo"),
                label(labels::APP_COMPONENT, labels::CHECKPOINT_STORAGE),
                label(labels::MANAGED_BY, labels::OPERATOR),
            ])),
            ..named(storage.claim, namespace)
        },
        spec: Some(PersistentVolumeClaimSpec {
            volume_mode: Some("Filesystem".to_owned()),
            ..storage_claim_spec(mode, size, settings.storage_class.trim())
        }),
        status: None,
    }))
}

/// The storage that the agents of a namespace mount: the first one that has any, by name.
pub fn storage_of_agents<'a>(agents: impl IntoIterator<Item = &'a DaemonSet>) -> Option<CheckpointStorage> {
    let mut agents: Vec<&DaemonSet> = agents.into_iter().collect();
    agents.sort_by_key(|agent| agent.metadata.name.as_deref());
    agents.into_iter().find_map(storage_of_agent)
}

fn storage_of_agent(agent: &DaemonSet) -> Option<CheckpointStorage> {
    let pod = agent.spec.as_ref()?.template.spec.as_ref()?;
    let volume = pod.volumes.iter().flatten().find(|volume| volume.name == AGENT_VOLUME)?;
    let claim = volume.persistent_volume_claim.as_ref()?.claim_name.trim();
    let container = pod.containers.iter().find(|container| container.name == AGENT_CONTAINER)?;
    let mount = container.volume_mounts.iter().flatten().find(|mount| mount.name == AGENT_VOLUME)?;
    let folder = mount.mount_path.trim().trim_end_matches('/');
    let known = !claim.is_empty() && !folder.is_empty();
    known.then(|| CheckpointStorage { claim: claim.to_owned(), folder: folder.to_owned() })
}

fn problem(field: &str, problem: &str, remedy: &str) -> String {
    format!("the operator's setting checkpoint.storage.{field} {problem}; {remedy}")
}

/// Location of the checkpoints of one namespace, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StorageLocation {
    /// Unknown: neither the settings nor an agent in the namespace name it.
    #[default]
    Unknown,
    /// The settings are invalid.
    Invalid(String),
    /// An agent mounts it.
    OfAgent(CheckpointStorage),
    /// The settings name it.
    Named {
        /// Storage that they name.
        storage: CheckpointStorage,
        /// Whether the claim exists.
        exists: bool,
    },
}

impl StorageLocation {
    /// The storage, if it is known.
    pub fn storage(&self) -> Option<&CheckpointStorage> {
        match self {
            Self::OfAgent(storage) | Self::Named { storage, .. } => Some(storage),
            Self::Unknown | Self::Invalid(_) => None,
        }
    }

    /// The storage, if an administrator chose it.
    pub fn named(&self) -> Option<&CheckpointStorage> {
        match self {
            Self::Named { storage, .. } => Some(storage),
            Self::Unknown | Self::Invalid(_) | Self::OfAgent(_) => None,
        }
    }

    /// The claim that has to be made before the storage can be used.
    ///
    /// # Errors
    /// The obstacle to its use that only an administrator can remove, in words.
    pub fn missing_claim(
        &self,
        namespace: &str,
        settings: &StorageSettings,
    ) -> Result<Option<PersistentVolumeClaim>, String> {
        match self {
            Self::Named { exists: false, .. } => {
                let claim = render_storage_claim(namespace, settings)?;
                claim.map(Some).ok_or_else(|| self.hindrance(namespace).unwrap_or_default())
            }
            Self::Invalid(problem) => Err(problem.clone()),
            // Without a configured storage, the agent of the pod's node chooses it.
            Self::Named { exists: true, .. } | Self::OfAgent(_) | Self::Unknown => Ok(None),
        }
    }

    /// Formats the obstacle to its use.
    pub fn hindrance(&self, namespace: &str) -> Option<String> {
        match self {
            Self::Unknown => Some(format!(
                "the operator's configuration names no checkpoint.storage.pvc, and namespace {namespace} has no agent \
                 whose DaemonSet mounts a claim for checkpoints"
            )),
            Self::Invalid(problem) => Some(problem.clone()),
            Self::Named { storage, exists: false } => Some(format!(
                "PersistentVolumeClaim {namespace}/{}, which the operator's configuration names for checkpoints, does \
                 not exist",
                storage.claim
            )),
            Self::OfAgent(_) | Self::Named { exists: true, .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn settings(edit: impl FnOnce(&mut StorageSettings)) -> StorageSettings {
        let mut all = StorageSettings {
            claim: "claim".to_owned(),
            folder: "/checkpoints/".to_owned(),
            create: true,
            size: "1Ti".to_owned(),
            ..StorageSettings::default()
        };
        edit(&mut all);
        all
    }

    #[test]
    fn storage_is_what_is_named_in_full_or_nothing() {
        let none = StorageSettings { kind: "s3".to_owned(), ..StorageSettings::default() };
        assert_eq!((none.storage(), StorageSettings::default().storage()), (Ok(None), Ok(None)));
        let named = CheckpointStorage { claim: "claim".to_owned(), folder: "/checkpoints".to_owned() };
        assert_eq!(settings(|_| {}).storage(), Ok(Some(named)));
        type Edit = fn(&mut StorageSettings);
        let table: [(Edit, &str); 4] = [
            (|s| s.kind = "s3".to_owned(), "type"),
            (|s| s.claim = " ".to_owned(), "pvc.pvcName"),
            (|s| s.folder = "checkpoints".to_owned(), "pvc.basePath"),
            (|s| s.folder = "/a/../b".to_owned(), "pvc.basePath"),
        ];
        for (edit, field) in table {
            let problem = settings(edit).storage().unwrap_err();
            assert!(
                problem.starts_with(&format!("the operator's setting checkpoint.storage.{field} is ")),
                "{problem}"
            );
        }
    }

    #[test]
    fn a_claim_is_made_only_where_it_is_said_in_full() {
        let claim = render_storage_claim("ns", &settings(|s| s.storage_class = "fast".to_owned())).unwrap().unwrap();
        let spec = json!(claim)["spec"].clone();
        let expected = json!({"accessModes": ["ReadWriteMany"], "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": "1Ti"}}, "storageClassName": "fast"});
        assert_eq!(spec, expected);
        assert_eq!(render_storage_claim("ns", &settings(|s| s.create = false)), Ok(None));
        for edit in [
            (|s| s.size = "0".to_owned()) as fn(&mut StorageSettings),
            |s| s.size = "big".to_owned(),
            |s| s.access_mode = "ReadOnlyMany".to_owned(),
        ] {
            assert!(render_storage_claim("ns", &settings(edit)).is_err());
        }
    }

    fn agent(name: &str, pod: Value) -> DaemonSet {
        let object = json!({"metadata": {"name": name}, "spec": {"selector": {}, "template": {"spec": pod}}});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn the_storage_of_checkpoints_is_read_from_the_agents() {
        let pod = |claim: &str, path: &str| {
            json!({
                "containers": [{"name": "agent", "volumeMounts": [{"name": "checkpoints", "mountPath": path}]}],
                "volumes": [{"name": "checkpoints", "persistentVolumeClaim": {"claimName": claim}}],
            })
        };
        let host =
            json!({"containers": [{"name": "agent"}], "volumes": [{"name": "checkpoints", "hostPath": {"path": "/"}}]});
        let agents = [agent("b", pod("two", "/two/")), agent("a", host), agent("c", pod("three", "/three"))];
        let expected = CheckpointStorage { claim: "two".to_owned(), folder: "/two".to_owned() };
        assert_eq!(storage_of_agents(&agents), Some(expected));
        assert_eq!(storage_of_agents(&agents[1..2]), None);
    }
}
