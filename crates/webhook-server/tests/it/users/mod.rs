//! Users who write objects in each of the ways that tools have: client-side apply, server-side apply, replace, edit.
//!
//! Each write goes to two objects: one of our kinds, and a copy of it that has one version and no conversion. Both
//! must read the same.

mod graphs;
mod oracle;
mod requests;

use kube::{
    ResourceExt,
    api::{Api, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::kubectl::{LAST_APPLIED, three_way};

/// A way to write an object, with the field manager that the tool has for it.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// `kubectl apply`, and Argo CD: a merge patch that follows from the last manifest.
    ClientSide(&'static str),
    /// `kubectl apply --server-side`, Flux, and Argo CD on request.
    ServerSide(&'static str),
    /// `kubectl replace`: the manifest, and nothing else.
    Replace,
    /// `kubectl edit`: what was read, with another spec.
    Edit,
}

/// An object as one user writes it.
pub struct Written {
    pub api: Api<DynamicObject>,
    pub api_version: String,
    pub kind: &'static str,
    pub name: String,
}

impl Written {
    fn manifest(&self, spec: &Value, annotations: &Value) -> Value {
        let mut manifest = json!({
            "apiVersion": self.api_version, "kind": self.kind, "metadata": { "name": self.name }, "spec": spec,
        });
        if !annotations.is_null() {
            manifest["metadata"]["annotations"] = annotations.clone();
        }
        manifest
    }

    pub async fn spec(&self) -> Value {
        self.api.get(&self.name).await.unwrap().data["spec"].take()
    }

    /// Writes a spec, and with it the annotations that a manifest in another version needs to say the same.
    pub async fn write(&self, way: Way, spec: &Value, annotations: &Value) -> kube::Result<()> {
        let manifest = self.manifest(spec, annotations);
        match (way, self.api.get_opt(&self.name).await?) {
            (Way::ServerSide(manager), live) => {
                if let Some(live) = live {
                    self.take_over_client_side(manager, &live).await?;
                }
                let params = PatchParams::apply(manager).force();
                self.api.patch(&self.name, &params, &Patch::Apply(&manifest)).await?;
            }
            (Way::ClientSide(manager), live) => self.client_side(manager, &manifest, live).await?,
            (Way::Replace | Way::Edit, None) => {
                self.api.create(&PostParams::default(), &serde_json::from_value(manifest).unwrap()).await?;
            }
            (Way::Replace, Some(live)) => {
                let mut object: DynamicObject = serde_json::from_value(manifest).unwrap();
                object.metadata.resource_version = live.metadata.resource_version;
                self.api.replace(&self.name, &PostParams::default(), &object).await?;
            }
            (Way::Edit, Some(mut live)) => {
                live.data["spec"] = spec.clone();
                self.api.replace(&self.name, &PostParams::default(), &live).await?;
            }
        }
        Ok(())
    }

    async fn client_side(&self, manager: &str, manifest: &Value, live: Option<DynamicObject>) -> kube::Result<()> {
        let mut annotated = manifest.clone();
        annotated["metadata"]["annotations"][LAST_APPLIED] = json!(manifest.to_string());
        let field_manager = Some(manager.to_owned());
        let Some(live) = live else {
            let object = serde_json::from_value(annotated).unwrap();
            self.api.create(&PostParams { field_manager, ..PostParams::default() }, &object).await?;
            return Ok(());
        };
        let last = live.annotations().get(LAST_APPLIED).map(|last| serde_json::from_str(last).unwrap());
        let live = serde_json::to_value(&live).unwrap();
        let patch = three_way(last.as_ref(), &annotated, &live).unwrap_or(json!({}));
        let params = PatchParams { field_manager, ..PatchParams::default() };
        self.api.patch(&self.name, &params, &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// Makes fields of client-side apply fields of server-side apply, as kubectl, Flux and Argo CD do before their
    /// first server-side apply.
    async fn take_over_client_side(&self, manager: &str, live: &DynamicObject) -> kube::Result<()> {
        let entries = live.metadata.managed_fields.iter().flatten().map(|entry| serde_json::to_value(entry).unwrap());
        let (client_side, mut entries): (Vec<Value>, Vec<Value>) = entries.partition(|entry| {
            entry["operation"] == "Update"
                && entry["fieldsV1"]["f:metadata"]["f:annotations"].get(format!("f:{LAST_APPLIED}")).is_some()
        });
        for mut entry in client_side {
            let is_own = |other: &Value| other["operation"] == "Apply" && other["manager"] == manager;
            match entries.iter_mut().find(|other| is_own(other)) {
                Some(own) => unite(&mut own["fieldsV1"], &entry["fieldsV1"]),
                None => {
                    (entry["operation"], entry["manager"]) = (json!("Apply"), json!(manager));
                    entries.push(entry);
                }
            }
        }
        let operations = json!([
            { "op": "replace", "path": "/metadata/managedFields", "value": entries },
            { "op": "replace", "path": "/metadata/resourceVersion", "value": live.metadata.resource_version },
        ]);
        let patch = Patch::<Value>::Json(serde_json::from_value(operations).unwrap());
        self.api.patch(&self.name, &PatchParams::default(), &patch).await?;
        Ok(())
    }
}

fn unite(into: &mut Value, from: &Value) {
    for (key, value) in from.as_object().into_iter().flatten() {
        unite(&mut into[key.as_str()], value);
    }
    if into.is_null() {
        *into = from.clone();
    }
}
