//! The real manager of LeaderWorkerSets, pinned in `xtask/cluster/lws`.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use crate::{
    Error, Place, Program,
    assets::{Assets, ForeignApi},
};

/// Its name in messages, and that of its process.
pub const NAME: &str = "lws-manager";

/// Its CustomResourceDefinitions.
///
/// # Errors
/// They cannot be had.
pub fn definitions() -> Result<Vec<Value>, Error> {
    let apis = [ForeignApi::LeaderWorkerSet, ForeignApi::LeaderWorkerSetManager];
    let all: Result<Vec<_>, _> = apis.map(|api| documents(api, "CustomResourceDefinition")).into_iter().collect();
    Ok(all?.concat())
}

/// Its webhook configurations. Where they point is [`Place::redirect`]'s.
///
/// # Errors
/// They cannot be had.
pub fn webhooks() -> Result<Vec<Value>, Error> {
    let mut configurations = documents(ForeignApi::LeaderWorkerSetManager, "WebhookConfiguration")?;
    // Its kustomization adds this: it is not called for pods of others.
    let of_sets = json!({ "key": "leaderworkerset.sigs.k8s.io/name", "operator": "Exists" });
    for webhook in configurations.iter_mut().flat_map(|one| one["webhooks"].as_array_mut()).flatten() {
        if webhook["name"].as_str().is_some_and(|name| name.ends_with("pod.kb.io")) {
            webhook["objectSelector"] = json!({ "matchExpressions": [of_sets] });
        }
    }
    Ok(configurations)
}

/// Returns its program for a place.
///
/// # Errors
/// Its configuration cannot be written.
pub fn program(executable: PathBuf, place: &Place) -> Result<Program, Error> {
    let configuration = json!({
        "apiVersion": "config.lws.x-k8s.io/v1alpha1", "kind": "Configuration",
        "leaderElection": { "leaderElect": false },
        "webhook": { "port": place.webhook, "host": "127.0.0.1", "certDir": place.folder },
        "metrics": { "bindAddress": "0" },
        "health": { "healthProbeBindAddress": format!("127.0.0.1:{}", place.health) },
        "internalCertManagement": { "enable": false },
    });
    let path = place.folder.join("config.yaml");
    fs::write(&path, configuration.to_string()).map_err(Error::io("write", &path))?;
    let args = vec![format!("--config={}", path.display()), format!("--kubeconfig={}", place.kubeconfig.display())];
    Ok(Program { name: NAME.to_owned(), executable, args, env: Vec::new() })
}

/// The documents of the module's files that are of a kind.
fn documents(api: ForeignApi, kind: &str) -> Result<Vec<Value>, Error> {
    let mut found = Vec::new();
    for path in Assets::from_env()?.definitions(api)? {
        let text = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        let all: Vec<Value> =
            serde_saphyr::from_multiple(&text).map_err(|source| Error::Yaml { path, source: Box::new(source) })?;
        found.extend(all.into_iter().filter(|one| one["kind"].as_str().is_some_and(|own| own.ends_with(kind))));
    }
    Ok(found)
}
