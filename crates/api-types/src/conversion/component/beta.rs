//! v1beta1 to v1alpha1.

use serde_json::{Value, json};

use super::{
    Beta, Name, SAME, beta_saved,
    main_container::{feature_to_alpha, take_apart},
};
use crate::conversion::{
    lens::{Edit, Side},
    value::{Object, copy, copy_as, nanos, object, text},
};

impl Side for Beta<'_> {
    fn project(&self, beta: &Object) -> Object {
        let mut alpha = Object::new();
        copy(beta, &mut alpha, &SAME);
        copy(beta, &mut alpha, &["providerOverride"]);
        if let (Name::Object(_), Some(name)) = (self.0, text(beta, "name")) {
            alpha.insert("serviceName".to_owned(), json!(name));
        }
        match text(beta, "type") {
            Some(part @ ("prefill" | "decode")) => {
                alpha.insert("componentType".to_owned(), json!("worker"));
                alpha.insert("subComponentType".to_owned(), json!(part));
            }
            Some(component_type) => {
                alpha.insert("componentType".to_owned(), json!(component_type));
            }
            None => {}
        }
        if let Some(size) = beta.get("sharedMemorySize").filter(|size| !size.is_null()) {
            alpha.insert("sharedMemory".to_owned(), shared_memory(size));
        }
        if let Some(cache) = object(beta, "compilationCache") {
            alpha.insert("volumeMounts".to_owned(), json!([cache_mount(cache)]));
        }
        if marker(beta, "scalingAdapter").is_some() {
            alpha.insert("scalingAdapter".to_owned(), json!({ "enabled": true }));
        }
        if let Some(experimental) = object(beta, "experimental") {
            for key in ["gpuMemoryService", "failover"] {
                if let Some(feature) = marker(experimental, key) {
                    alpha.insert(key.to_owned(), Value::Object(feature_to_alpha(&feature)));
                }
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

    fn edits<'a>(&'a self, saved: &'a Object) -> Vec<Edit<'a>> {
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
