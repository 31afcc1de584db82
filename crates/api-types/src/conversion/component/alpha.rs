//! v1alpha1 to v1beta1.

use serde_json::{Value, json};

use super::{
    Alpha, Name, SAME, SIDECAR, alpha_saved,
    main_container::{checkpoint_to_beta, feature_to_beta, template},
};
use crate::{
    conversion::{
        lens::{RestoreEdit, Side},
        value::{Object, copy, copy_as, insert_filled, is_true, list, nanos, object, put, text},
    },
    v1beta1::ComponentType,
};

impl Side for Alpha<'_> {
    fn project(&self, alpha: &Object) -> Object {
        let mut beta = Object::new();
        copy(alpha, &mut beta, &SAME);
        let name = match self.0 {
            Name::Key(key) => Some(key),
            Name::Object(object) => text(alpha, "serviceName").or(object),
        };
        put(&mut beta, &["name"], name.map(Value::from));
        put(&mut beta, &["type"], component_type(alpha).map(Value::from));
        put(&mut beta, &["sharedMemorySize"], object(alpha, "sharedMemory").and_then(shared_memory_size));
        put(&mut beta, &["compilationCache"], compilation_cache(alpha).map(Value::Object));
        if object(alpha, "scalingAdapter").is_some_and(|adapter| is_true(adapter, "enabled")) {
            beta.insert("scalingAdapter".to_owned(), json!({}));
        }
        insert_filled(&mut beta, "experimental", experimental(alpha));
        if let Some(template) = template(alpha) {
            beta.insert("podTemplate".to_owned(), Value::Object(template));
            if object(alpha, "frontendSidecar").is_some() {
                beta.insert("frontendSidecar".to_owned(), json!(SIDECAR));
            }
        }
        beta
    }

    fn save(&self, original: &Object, rebuilt: &Object) -> Object {
        alpha_saved::save(self.0, original, rebuilt)
    }

    fn edits<'a>(&'a self, saved: &'a Object) -> Vec<RestoreEdit<'a>> {
        alpha_saved::edits(self.0, saved)
    }
}

/// v1beta1 has the parts of a disaggregated worker as types of their own. v1alpha1 takes any text; one that v1beta1
/// lacks means no particular role.
fn component_type(alpha: &Object) -> Option<&str> {
    let component_type = text(alpha, "componentType").filter(|given| ComponentType::named(given).is_some());
    match (component_type, text(alpha, "subComponentType")) {
        (Some("worker"), Some(part @ ("prefill" | "decode"))) => Some(part),
        _ => component_type,
    }
}

fn shared_memory_size(shared_memory: &Object) -> Option<Value> {
    if is_true(shared_memory, "disabled") {
        return Some(json!("0"));
    }
    shared_memory.get("size").filter(|size| nanos(size) != Some(0) && !size.is_null()).cloned()
}

fn compilation_cache(alpha: &Object) -> Option<Object> {
    let mounts = list(alpha, "volumeMounts").iter().filter_map(Value::as_object);
    let mount = mounts.into_iter().find(|mount| is_true(mount, "useAsCompilationCache"))?;
    let mut cache = Object::new();
    copy_as(mount, "name", &mut cache, "pvcName");
    copy_as(mount, "mountPoint", &mut cache, "mountPath");
    Some(cache)
}

fn experimental(alpha: &Object) -> Object {
    let mut experimental = Object::new();
    for key in ["gpuMemoryService", "failover"] {
        put(&mut experimental, &[key], object(alpha, key).and_then(feature_to_beta).map(Value::Object));
    }
    let checkpoint = object(alpha, "checkpoint").map(checkpoint_to_beta);
    put(&mut experimental, &["checkpoint"], checkpoint.map(Value::Object));
    experimental
}
