//! v1beta1 to v1alpha1.

use serde_json::{Value, json};

use super::{
    Beta, Name, SAME, beta_saved,
    main_container::{feature_to_alpha, take_apart},
};
use crate::conversion::{
    lens::{RestoreEdit, Side},
    value::{Object, copy, copy_as, nanos, object, put, text},
};

impl Side for Beta<'_> {
    fn project(&self, beta: &Object) -> Object {
        let mut alpha = Object::new();
        copy(beta, &mut alpha, &SAME);
        if let (Name::Object(_), Some(name)) = (self.0, text(beta, "name")) {
            alpha.insert("serviceName".to_owned(), json!(name));
        }
        let (component_type, part) = match text(beta, "type") {
            Some(part @ ("prefill" | "decode")) => (Some("worker"), Some(part)),
            component_type => (component_type, None),
        };
        put(&mut alpha, &["componentType"], component_type.map(Value::from));
        put(&mut alpha, &["subComponentType"], part.map(Value::from));
        let size = beta.get("sharedMemorySize").filter(|size| !size.is_null());
        put(&mut alpha, &["sharedMemory"], size.map(shared_memory));
        let cache = object(beta, "compilationCache");
        put(&mut alpha, &["volumeMounts"], cache.map(|cache| json!([cache_mount(cache)])));
        put(&mut alpha, &["scalingAdapter"], marker(beta, "scalingAdapter").map(|_| json!({ "enabled": true })));
        if let Some(experimental) = object(beta, "experimental") {
            for key in ["gpuMemoryService", "failover"] {
                put(&mut alpha, &[key], marker(experimental, key).as_ref().map(feature_to_alpha).map(Value::Object));
            }
            copy(experimental, &mut alpha, &["checkpoint"]);
        }
        if let Some(template) = object(beta, "podTemplate") {
            take_apart(template, &mut alpha);
        }
        alpha
    }

    fn save(&self, original: &Object, rebuilt: &Object) -> Object {
        beta_saved::save(original, rebuilt)
    }

    fn edits<'a>(&'a self, saved: &'a Object) -> Vec<RestoreEdit<'a>> {
        beta_saved::edits(self.0, saved)
    }
}

/// An object whose presence alone says something. Where server-side apply takes the last field out of such an object,
/// it sends null for it in the middle of its work; the object is still there.
fn marker(from: &Object, key: &str) -> Option<Object> {
    match from.get(key)? {
        Value::Object(marker) => Some(marker.clone()),
        Value::Null => Some(Object::new()),
        _ => None,
    }
}

fn shared_memory(size: &Value) -> Value {
    match nanos(size) {
        Some(0) => json!({ "disabled": true, "size": size }),
        _ => json!({ "size": size }),
    }
}

fn cache_mount(cache: &Object) -> Object {
    let mut mount = Object::from_iter([("useAsCompilationCache".to_owned(), json!(true))]);
    copy_as(cache, "pvcName", &mut mount, "name");
    copy_as(cache, "mountPath", &mut mount, "mountPoint");
    mount
}
