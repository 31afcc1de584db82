//! The volume that keeps compiled kernels, and what may stand in its way.

use api_types::{
    v1beta1::{BackendFramework, CompilationCache, MAIN_CONTAINER},
    violations::Violation,
};
use k8s_openapi::api::core::v1::{Container, PodSpec, Volume};

use crate::{frameworks, model::CacheMount};

/// Resolves the cache's path and rejects conflicting mounts and volumes.
pub(super) fn check<'a>(
    cache: Option<&'a CompilationCache>,
    framework: Option<BackendFramework>,
    pod: &PodSpec,
    main: &Container,
) -> Result<Option<CacheMount<'a>>, Violation> {
    let Some(cache) = cache else { return Ok(None) };
    let claim = cache.pvc_name.as_str();
    if claim.is_empty() {
        return Err(invalid("pvcName", "", "is empty", "name the PersistentVolumeClaim that holds the cache"));
    }
    let given = cache.mount_path.as_deref().filter(|path| !path.is_empty());
    let Some(path) = given.or_else(|| framework.and_then(frameworks::default_cache_path)) else {
        let problem = "is missing, and the component's framework has no default";
        return Err(invalid("mountPath", "", problem, "give the path at which the engine keeps its cache"));
    };
    let mount = CacheMount { claim, path };
    check_mounts(mount, main)?;
    check_volumes(mount, pod)?;
    Ok(Some(mount))
}

fn check_mounts(cache: CacheMount<'_>, main: &Container) -> Result<(), Violation> {
    for mount in main.volume_mounts.iter().flatten().filter(|mount| mount.mount_path == cache.path) {
        if mount.name != cache.claim {
            let problem = format!("is taken by volume {} of container {MAIN_CONTAINER}", mount.name);
            return Err(invalid("mountPath", cache.path, &problem, "mount one of the two elsewhere"));
        }
        if mount.read_only == Some(true) {
            let problem = format!("is mounted read-only by container {MAIN_CONTAINER}");
            return Err(invalid("mountPath", cache.path, &problem, "remove readOnly from that volume mount"));
        }
    }
    Ok(())
}

fn check_volumes(cache: CacheMount<'_>, pod: &PodSpec) -> Result<(), Violation> {
    let named: Vec<&Volume> = pod.volumes.iter().flatten().filter(|volume| volume.name == cache.claim).collect();
    let problem = match named.as_slice() {
        [] => return Ok(()),
        [volume] => match &volume.persistent_volume_claim {
            None => "is also the name of a volume that is no PersistentVolumeClaim".to_owned(),
            Some(claim) if claim.claim_name != cache.claim => {
                format!("is also the name of a volume for the claim {}", claim.claim_name)
            }
            Some(claim) if claim.read_only == Some(true) => "is also the name of a read-only volume".to_owned(),
            Some(_) => return Ok(()),
        },
        _ => "is the name of several volumes".to_owned(),
    };
    Err(invalid("pvcName", cache.claim, &problem, "remove that volume from spec.podTemplate.spec.volumes"))
}

fn invalid(field: &str, value: &str, problem: &str, remedy: &str) -> Violation {
    Violation::invalid(format!("spec.compilationCache.{field}"), value, problem, remedy)
}
