//! Stores objects anew that are stored in an older version, and forgets versions that are not served any more.
//!
//! Every step can be done twice, by several at once, and be broken off at any point: a definition lists a version as
//! stored until all objects were written since.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, bail};
use api_types::annotations;
use futures::{StreamExt, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Client, ResourceExt,
    api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams},
    core::{ObjectMeta, PartialObjectMeta},
};
use serde_json::json;

use crate::{
    cluster::FIELD_MANAGER,
    stored::{Work, work},
};

/// Objects read at a time.
const PAGE: u32 = 500;
/// Objects written at a time.
const PARALLEL: usize = 8;
/// Maximum number of attempts of a write that conflicts with another writer.
const ATTEMPTS: u32 = 5;
/// Between two tries while the conversion webhook does not answer.
const PAUSE: Duration = Duration::from_secs(1);
/// Failures that are reported one by one.
const REPORTED: usize = 5;

/// Result of a migration.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Migration {
    /// Objects stored anew.
    pub rewritten: usize,
    /// Objects whose managed fields had entries of a version that is not served any more.
    pub cleaned: usize,
}

/// Definitions whose objects this process has migrated, with the versions in which they were served then.
#[derive(Debug, Default)]
pub(crate) struct Done(BTreeMap<String, (Option<String>, Vec<String>)>);

/// Migrates the objects of one definition, if that was not done before. A generation that neither stores another
/// version nor serves others needs no migration of its own.
pub(crate) async fn migrate(client: &Client, name: &str, all_done: &mut Done) -> anyhow::Result<Migration> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crd = crds.get(name).await?;
    let Some(work) = work(&crd)? else { return Ok(Migration::default()) };
    let served = (crd.uid(), work.served.clone());
    if !work.rewrite && all_done.0.get(name) == Some(&served) {
        return Ok(Migration::default());
    }
    let resource = ApiResource {
        group: crd.spec.group.clone(),
        version: work.storage_version.clone(),
        api_version: work.storage.clone(),
        kind: crd.spec.names.kind.clone(),
        plural: crd.spec.names.plural.clone(),
    };
    let done = StoredObjects { client, resource, work: &work }.migrate().await?;
    if work.rewrite {
        forget_versions(&crds, name, &work).await?;
    }
    let generation = json!({ "metadata": { "annotations": {
        annotations::MIGRATED_GENERATION: work.generation.to_string(),
    } } });
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    crds.patch(name, &params, &Patch::Merge(generation)).await?;
    all_done.0.insert(name.to_owned(), served);
    Ok(done)
}

/// Takes the versions in which nothing is stored any more off the definition, if it is still as it was.
async fn forget_versions(crds: &Api<CustomResourceDefinition>, name: &str, before: &Work) -> anyhow::Result<()> {
    for _ in 0..ATTEMPTS {
        let crd = crds.get(name).await?;
        match work(&crd)? {
            Some(now) if now.storage != before.storage => bail!("the stored version changed meanwhile; run again"),
            Some(now) if now.rewrite => {}
            _ => return Ok(()),
        }
        let stored = json!({
            "metadata": { "resourceVersion": crd.resource_version() },
            "status": { "storedVersions": [before.storage_version] },
        });
        match crds.patch_status(name, &PatchParams::default(), &Patch::Merge(stored)).await {
            Err(error) if code(&error) == Some(409) => {}
            written => return written.map(drop).context("cannot write status.storedVersions"),
        }
    }
    bail!("others keep writing the definition; run again")
}

/// Result for one object.
enum MigrationOutcome {
    Rewritten,
    Cleaned,
    Untouched,
}

struct StoredObjects<'a> {
    client: &'a Client,
    resource: ApiResource,
    work: &'a Work,
}

impl StoredObjects<'_> {
    async fn migrate(&self) -> anyhow::Result<Migration> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &self.resource);
        let mut done = Migration::default();
        let mut failures = Vec::new();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let listed = match patiently(async || api.list_metadata(&page).await).await {
                // The list took so long that the API server forgot it; what was written stays written.
                Err(error) if code(&error) == Some(410) => {
                    page = ListParams::default().limit(PAGE);
                    continue;
                }
                listed => listed.context("cannot list the objects")?,
            };
            let next = listed.metadata.continue_.clone().filter(|token| !token.is_empty());
            let mut outcomes = stream::iter(listed.items).map(|object| self.object(object)).buffer_unordered(PARALLEL);
            while let Some(outcome) = outcomes.next().await {
                match outcome {
                    Ok(MigrationOutcome::Rewritten) => done.rewritten += 1,
                    Ok(MigrationOutcome::Cleaned) => done.cleaned += 1,
                    Ok(MigrationOutcome::Untouched) => {}
                    Err(error) => failures.push(format!("{error:#}")),
                }
            }
            let Some(token) = next else { break };
            page = ListParams::default().limit(PAGE).continue_token(&token);
        }
        if failures.is_empty() {
            return Ok(done);
        }
        let more = failures.len().saturating_sub(REPORTED);
        let reported = failures.iter().take(REPORTED).cloned().collect::<Vec<_>>().join("; ");
        bail!("{reported}{}", if more > 0 { format!("; and {more} more") } else { String::new() })
    }

    /// Writes one object without changing it. Who deleted it has nothing stored; who wrote it meanwhile has stored it.
    async fn object(&self, object: PartialObjectMeta<DynamicObject>) -> anyhow::Result<MigrationOutcome> {
        let metadata = object.metadata;
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let name = metadata.name.clone().unwrap_or_default();
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &namespace, &self.resource);
        let managed = metadata.managed_fields.as_deref().unwrap_or_default();
        let outcome = if self.work.kept(managed, FIELD_MANAGER).is_some() {
            self.clean(&api, metadata).await.map(|()| MigrationOutcome::Cleaned)
        } else if self.work.rewrite {
            self.rewrite(&api, &metadata).await.map(|()| MigrationOutcome::Rewritten)
        } else {
            Ok(MigrationOutcome::Untouched)
        };
        match outcome {
            Err(error) if matches!(code(&error), Some(404 | 409)) => Ok(MigrationOutcome::Untouched),
            outcome => outcome.with_context(|| format!("{namespace}/{name}")),
        }
    }

    /// Applies nothing to the object, at exactly this resource version. No webhook is called for a status.
    async fn rewrite(&self, api: &Api<DynamicObject>, metadata: &ObjectMeta) -> kube::Result<()> {
        let name = metadata.name.as_deref().unwrap_or_default();
        let nothing = json!({
            "apiVersion": self.work.storage,
            "kind": self.resource.kind,
            "metadata": {
                "name": name,
                "namespace": metadata.namespace,
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
            },
        });
        let params = PatchParams::apply(FIELD_MANAGER);
        if self.work.status {
            patiently(async || api.patch_status(name, &params, &Patch::Apply(&nothing)).await).await.map(drop)
        } else {
            patiently(async || api.patch(name, &params, &Patch::Apply(&nothing)).await).await.map(drop)
        }
    }

    /// Takes versions that are not served any more out of the managed fields. A writer who comes between does not do
    /// that, so a lost race is run again.
    async fn clean(&self, api: &Api<DynamicObject>, mut metadata: ObjectMeta) -> kube::Result<()> {
        let name = metadata.name.clone().unwrap_or_default();
        let mut attempt = 1;
        loop {
            let managed = metadata.managed_fields.as_deref().unwrap_or_default();
            let Some(kept) = self.work.kept(managed, FIELD_MANAGER) else { return Ok(()) };
            let patch = json!([
                { "op": "replace", "path": "/metadata/managedFields", "value": kept },
                { "op": "replace", "path": "/metadata/resourceVersion", "value": metadata.resource_version },
            ]);
            let patch = Patch::Json::<()>(serde_json::from_value(patch).map_err(kube::Error::SerdeError)?);
            match patiently(async || api.patch(&name, &PatchParams::default(), &patch).await).await {
                Err(error) if code(&error) == Some(409) && attempt < ATTEMPTS => attempt += 1,
                written => return written.map(drop),
            }
            metadata = api.get_metadata(&name).await?.metadata;
        }
    }
}

/// Repeats the call until the API server can serve it; while the conversion webhook does not answer, it cannot. The
/// time limit of the whole program ends this.
async fn patiently<T>(mut call: impl AsyncFnMut() -> kube::Result<T>) -> kube::Result<T> {
    let mut reported = String::new();
    loop {
        match call().await {
            Err(error) if code(&error).is_some_and(|code| code == 429 || code >= 500) => {
                let reason = reason(&error);
                if reason != reported {
                    eprintln!("waiting: {reason}");
                    reported = reason;
                }
                tokio::time::sleep(PAUSE).await;
            }
            answer => return answer,
        }
    }
}

/// Returns the API server's message, without the client's form of it.
fn reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}
