//! What ResourceQuotas say of the pods of a preview.

use api_types::quantity::nanos;
use serde::Serialize;
use serde_json::Value;

use super::pods::Pod;

const ONE: i128 = 1_000_000_000;

/// A limit that the pods exceed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Excess {
    /// The quota.
    pub quota: String,
    /// The resource, as the quota names it.
    pub resource: String,
    /// Its limit.
    pub hard: String,
    /// What is used now.
    pub used: String,
    /// What would be used.
    pub needed: String,
}

/// What a quota counts of pods.
fn counted(resource: &str, pods: &[Pod]) -> Option<i128> {
    let requested = |name: &str| pods.iter().filter_map(|pod| pod.requests.get(name)).sum();
    match resource {
        "pods" | "count/pods" => Some(i128::try_from(pods.len()).unwrap_or(i128::MAX) * ONE),
        "cpu" | "memory" => Some(requested(resource)),
        _ => resource.strip_prefix("requests.").map(requested),
    }
}

/// The limits that pods exceed if they come in place of those of today. Quotas with a scope are left out: whether they
/// count a pod is for the API server to say.
pub fn excesses(quotas: &[Value], today: &[Pod], pods: &[Pod]) -> Vec<Excess> {
    let mut found = Vec::new();
    let is_plain =
        |quota: &&Value| quota["spec"].get("scopes").is_none() && quota["spec"].get("scopeSelector").is_none();
    for quota in quotas.iter().filter(is_plain) {
        for (resource, hard) in quota["spec"]["hard"].as_object().into_iter().flatten() {
            let used = &quota["status"]["used"][resource];
            let (Some(hard), used) = (hard.as_str(), used.as_str().unwrap_or("0")) else { continue };
            let amounts = (counted(resource, today), counted(resource, pods), nanos(hard), nanos(used));
            let (Some(before), Some(after), Some(limit), Some(now)) = amounts else { continue };
            let needed = now + after - before;
            if after > before && needed > limit {
                found.push(Excess {
                    quota: quota["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                    resource: resource.clone(),
                    hard: hard.to_owned(),
                    used: used.to_owned(),
                    needed: shown(needed),
                });
            }
        }
    }
    found
}

fn shown(nanos: i128) -> String {
    if nanos % ONE == 0 { (nanos / ONE).to_string() } else { format!("{}m", nanos / 1_000_000) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::preview::objects::ObjectKey;

    fn pods(count: usize) -> Vec<Pod> {
        let key =
            ObjectKey { group: String::new(), plural: String::new(), namespace: String::new(), name: String::new() };
        let requests = [("nvidia.com/gpu".to_owned(), 2 * ONE), ("cpu".to_owned(), ONE / 2)].into();
        (0..count).map(|_| Pod::of_test(key.clone(), &requests)).collect()
    }

    #[test]
    fn only_what_grows_beyond_a_limit_is_named() {
        let quota = |resource: &str, hard: &str, used: &str, scopes: Value| {
            json!({ "metadata": { "name": "q" }, "spec": { "hard": { resource: hard }, "scopes": scopes },
                "status": { "used": { resource: used } } })
        };
        for (resource, hard, used, needed) in [
            ("pods", "3", "2", Some("4")),
            ("pods", "4", "2", None),
            ("requests.nvidia.com/gpu", "6", "4", Some("8")),
            ("requests.nvidia.com/gpu", "8", "4", None),
            ("cpu", "1", "1", Some("2")),
            ("requests.cpu", "1500m", "1", Some("2")),
            ("persistentvolumeclaims", "0", "1", None),
        ] {
            let mut quota = quota(resource, hard, used, Value::Null);
            quota["spec"].as_object_mut().unwrap().remove("scopes");
            let found = excesses(&[quota], &pods(2), &pods(4));
            assert_eq!(found.first().map(|excess| excess.needed.as_str()), needed, "{resource} {hard}");
        }
        assert!(excesses(&[quota("pods", "0", "9", json!(["BestEffort"]))], &pods(2), &pods(4)).is_empty());
        let mut full = quota("pods", "0", "9", Value::Null);
        full["spec"].as_object_mut().unwrap().remove("scopes");
        assert!(excesses(&[full], &pods(4), &pods(4)).is_empty(), "nothing grows");
    }
}
