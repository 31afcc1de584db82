//! Why a PersistentVolumeClaim is not bound.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

use super::model::{Observed, Weight};

/// The cause of a claim.
pub struct Found {
    /// Name of the claim.
    pub claim: String,
    /// Code of the cause.
    pub code: &'static str,
    /// Whether it needs an action.
    pub weight: Weight,
    /// What is wrong.
    pub cause: String,
    /// What to do.
    pub remedy: &'static str,
}

/// The first claim of a pod that cannot be used.
pub fn of_pod(observed: &Observed, pod: &Pod) -> Option<Found> {
    names(pod).find_map(|name| match observed.claims.get(name)? {
        None => Some(Found {
            claim: name.to_owned(),
            code: "ClaimMissing",
            weight: Weight::Blocks,
            cause: format!("PersistentVolumeClaim {name} does not exist"),
            remedy: "create the claim, or correct its name in the pod template",
        }),
        Some(claim) => of_claim(observed, name, claim),
    })
}

/// Names of the claims that a pod mounts.
pub fn names(pod: &Pod) -> impl Iterator<Item = &str> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.as_str()))
}

fn of_claim(observed: &Observed, name: &str, claim: &PersistentVolumeClaim) -> Option<Found> {
    let found =
        |code, weight, cause: String, remedy| Some(Found { claim: name.to_owned(), code, weight, cause, remedy });
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    if phase == "Lost" {
        let text = format!("PersistentVolumeClaim {name} has lost its volume");
        return found("ClaimLost", Weight::Blocks, text, "restore the volume, or create the claim anew");
    }
    if claim.metadata.deletion_timestamp.is_some() {
        let text = format!("PersistentVolumeClaim {name} is being deleted");
        return found("ClaimDeleted", Weight::Blocks, text, "delete the pods that use it, and create it anew");
    }
    if phase == "Bound" {
        return None;
    }
    let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
    if let Some(classes) = &observed.storage_classes {
        match class {
            Some(class) if !class.is_empty() && !classes.contains_key(class) => {
                let text = format!("PersistentVolumeClaim {name} is pending: StorageClass {class} does not exist");
                let remedy = "create the StorageClass, or create the claim anew with one that exists";
                return found("StorageClassMissing", Weight::Blocks, text, remedy);
            }
            None if !classes.values().any(|default| *default) => {
                let text = format!(
                    "PersistentVolumeClaim {name} is pending: it names no StorageClass, and the cluster has no \
                    default one"
                );
                let remedy = "name a storageClassName in the claim, or mark a StorageClass as the default one";
                return found("NoStorageClass", Weight::Blocks, text, remedy);
            }
            _ => {}
        }
    }
    let warnings = || observed.warnings.iter().filter(|one| one.kind == "PersistentVolumeClaim" && one.name == name);
    if let Some(warning) = warnings().next() {
        let text = format!("PersistentVolumeClaim {name} is pending: {}", warning.message);
        let remedy = "look at the provisioner of the storage class, and at the size and access modes of the claim";
        return found("ProvisioningFailed", Weight::Blocks, text, remedy);
    }
    let text = format!("PersistentVolumeClaim {name} is pending");
    found(
        "ClaimPending",
        Weight::Waits,
        text,
        "wait for the provisioner of the storage class, or create a volume for it",
    )
}
