//! Replicas of objects that another controller creates, set through their scale subresource.

use std::time::Instant;

use kube::{Resource, core::ApiResource};
use serde_json::{Value, json};
use tracing::info;

use super::{
    Applier,
    applier::{uid_of, version_of},
};
use crate::{
    metrics::WriteVerb,
    request::{Error, ObjectId},
};

impl Applier {
    /// Asks for `to` replicas of exactly this object (by uid), if it still has `from`. `parent_uid` is the object being
    /// reconciled.
    ///
    /// Nothing but the number of replicas is touched: its maker goes on owning the rest.
    ///
    /// # Errors
    /// [`Error::Changed`], which is transient, if it is another object of that name, or has other replicas by now.
    pub async fn scale<K>(&self, object: &K, parent_uid: &str, from: i32, to: i32) -> Result<(), Error>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let resource = ApiResource::erase::<K>(&K::DynamicType::default());
        let id = ObjectId::of(object);
        let uid = uid_of(&id, object.meta())?;
        let mut operations = vec![json!({ "op": "test", "path": "/metadata/uid", "value": uid })];
        if from != 0 {
            // A scale leaves zero out.
            operations.push(json!({ "op": "test", "path": "/spec/replicas", "value": from }));
        }
        operations.push(json!({ "op": "add", "path": "/spec/replicas", "value": to }));
        let answer = self.edit("scale", (&resource, &id), WriteVerb::Scale, Value::Array(operations)).await?;
        info!(object = %id, from, to, "scaled");
        if let Some(version) = version_of(&answer) {
            self.memory().wrote(parent_uid, &id, version, Instant::now());
        }
        Ok(())
    }
}
