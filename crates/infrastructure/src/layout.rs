//! Places at which the runtime keeps the data of one Dynamo namespace.
//!
//! | kept | as |
//! |---|---|
//! | instances of endpoints | etcd `v1/instances/<namespace>/<component>/<endpoint>/<instance>` |
//! | cards of models | etcd `v1/mdc/<namespace>/…` |
//! | event channels and their sources | etcd `v1/event_channels/namespace/<namespace>/…`, `v1/event_sources/namespace/<namespace>/…` |
//! | instances, before these had a version | etcd `instances/<namespace>/…`, `models/<namespace>/…` |
//! | queues and snapshots of a component | JetStream streams and object stores `namespace_<namespace>_component_…` |
//! | key-value buckets | JetStream `KV_<namespace>_<bucket>` |
//!
//! The Go operator of the legacy API deleted `/<namespace>/components/<service>`, under which no runtime ever kept
//! anything, and had it been right it would have taken everything whose name only begins with the service's along.
//! Hence a separator at the end of each prefix.

/// Parts of the key space in etcd, each with a namespace below it.
const ETCD_PARTS: [&str; 6] =
    ["v1/instances", "v1/mdc", "v1/event_channels/namespace", "v1/event_sources/namespace", "instances", "models"];

/// Buckets that the runtime keeps in NATS for each namespace.
const NATS_BUCKETS: [&str; 4] = ["v1_instances", "v1_mdc", "v1_event_channels", "v1_event_sources"];

/// The prefixes of everything in etcd that belongs to a Dynamo namespace. A namespace without a name has nothing.
pub fn etcd_prefixes(namespace: &str) -> Vec<String> {
    if namespace.is_empty() {
        return Vec::new();
    }
    ETCD_PARTS.iter().map(|part| format!("{part}/{namespace}/")).collect()
}

/// The prefixes of the instances of one component.
pub fn etcd_component_prefixes(namespace: &str, component: &str) -> Vec<String> {
    if namespace.is_empty() || component.is_empty() {
        return Vec::new();
    }
    ["v1/instances", "v1/mdc", "instances"].iter().map(|part| format!("{part}/{namespace}/{component}/")).collect()
}

/// Whether a stream of JetStream belongs to a Dynamo namespace.
pub fn owns_stream(namespace: &str, stream: &str) -> bool {
    // One that is not its own slug would have the streams of another namespace: names differ in case, and slugs do not.
    if namespace.is_empty() || slug(namespace) != namespace {
        return false;
    }
    if let Some(bucket) = stream.strip_prefix("KV_") {
        return bucket
            .strip_prefix(namespace)
            .and_then(|rest| rest.strip_prefix('_'))
            .is_some_and(|rest| NATS_BUCKETS.contains(&rest));
    }
    let name = stream.strip_prefix("OBJ_").unwrap_or(stream);
    name.strip_prefix("namespace_")
        .and_then(|rest| rest.strip_prefix(namespace))
        .is_some_and(|rest| rest.starts_with("_component_"))
}

/// The name as the runtime writes it where NATS does not take every character.
fn slug(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_' { c } else { '_' };
    let slug: String = name.to_lowercase().chars().map(keep).collect();
    slug.trim_start_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Defect of the legacy operator: its prefix never fitted the runtime's keys, and took longer names along.
    #[test]
    fn stale_keys_are_those_of_the_runtime_and_of_no_longer_name() {
        let prefixes = etcd_prefixes("team-llm");
        let covers = |key: &str| prefixes.iter().any(|prefix| key.starts_with(prefix.as_str()));
        assert!(covers("v1/instances/team-llm/backend/generate/6af3"));
        assert!(covers("v1/mdc/team-llm/backend/generate/6af3"));
        assert!(covers("instances/team-llm/backend/generate:6af3"));
        assert!(covers("v1/event_channels/namespace/team-llm/component/backend/topic/kv/1"));
        assert!(!covers("v1/instances/team-llm-2/backend/generate/6af3"));
        assert!(!covers("v1/instances/team/backend/generate/6af3"));
        assert!(!covers("/registry/pods/team-llm/x"));
        assert!(etcd_prefixes("").is_empty());
    }

    #[test]
    fn streams_belong_to_one_namespace() {
        for (stream, owned) in [
            ("namespace_team-llm_component_backend_kv_events", true),
            ("OBJ_namespace_team-llm_component_backend-radix-bucket", true),
            ("KV_team-llm_v1_instances", true),
            ("KV_team-llm_orders", false),
            ("namespace_team-llm-2_component_backend_kv_events", false),
            ("namespace_team_component_backend_kv_events", false),
            ("KV_team-llm-2_v1_instances", false),
            ("orders", false),
        ] {
            assert_eq!(owns_stream("team-llm", stream), owned, "{stream}");
        }
        assert!(!owns_stream("", "namespace__component_x"));
        // A pod's label may have capitals; the streams are those of a graph of another tenant.
        for name in ["team-A-llm", "Team-a-llm", "team.a-llm", "_team-a-llm"] {
            for stream in ["namespace_team-a-llm_component_backend_kv_events", "KV_team-a-llm_v1_instances"] {
                assert!(!owns_stream(name, stream), "{name} {stream}");
            }
        }
    }
}
