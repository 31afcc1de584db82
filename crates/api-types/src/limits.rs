//! Budgets for what users write. The CRDs of both versions enforce them, and so does the code that uses a value: the
//! API server does not check objects that were stored under older definitions, or under those of the upstream operator.
//!
//! A limit is far above any real use. It exists so that no object can make a controller allocate without bound or
//! overflow an integer.

/// Nodes of one replica. Command lines name each of them, and Grove has a clique per node.
pub const NODES: i32 = 1024;

/// Ranks of one graph on Grove whose engines share GPU memory between pods. Each is two cliques in the one PodCliqueSet
/// of the graph, which etcd takes up to 1.5 MiB of.
pub const MEMORY_RANKS: i32 = 256;

/// Standby engines of one engine. Each is a pod that holds no GPU memory of its own.
pub const SHADOWS: i32 = 64;

/// Replicas of one component. Multiplied by [`NODES`] the number of pods still fits an `i32`; Kubernetes supports
/// 150 000 pods in a cluster.
pub const REPLICAS: i32 = 100_000;

/// Ranks of one kind of parallelism. The product of two kinds fits an `i32`.
pub const RANKS: i32 = 4096;

/// Tokens of one request or of a model's context.
pub const TOKENS: i32 = 1 << 30;

/// GPUs of one node.
pub const GPUS_PER_NODE: i32 = 1024;

/// GPUs of a cluster.
pub const GPUS: i32 = 1_000_000;

/// Seconds of a time limit: about 31 years. Added to a point in time it stays within the years that RFC 3339 can write.
pub const SECONDS: i64 = 1_000_000_000;

/// Retries of a Job.
pub const RETRIES: i32 = 1_000_000;

/// Other whole numbers, which are passed on as they are.
pub const COUNT: i64 = 1_000_000_000;

/// Other numbers, which are passed on as they are: latencies in milliseconds, rates, megabytes of memory.
pub const NUMBER: f64 = 1e12;

/// Items of a list and entries of a map, where the type gives no smaller number.
pub const ITEMS: u32 = 1000;

/// Characters of a text, where the type gives no smaller number. Scripts and embedded configurations fit.
pub const TEXT: u32 = 131_072;

/// Bytes of a spec as JSON. The API server and etcd take 1.5 MiB; every process keeps all objects of its kinds in
/// memory.
pub const SPEC_BYTES: usize = 256 * 1024;

/// Text for a value above its limit.
#[must_use]
pub fn at_most(limit: impl std::fmt::Display) -> String {
    format!("is more than {limit}")
}
