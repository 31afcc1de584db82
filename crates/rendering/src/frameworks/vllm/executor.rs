//! Executor that joins the nodes of a replica: one model over several nodes, and several engines side by side.

use api_types::{annotations, ports, v1beta1::BackendFramework};
use k8s_openapi::api::core::v1::Container;

use crate::frameworks::{MultinodePod, NodeRole, command};

/// Executor that joins the nodes of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::frameworks) enum Executor {
    /// Processes that vLLM starts itself.
    Mp,
    /// Ray.
    Ray,
}

impl Executor {
    /// As vLLM calls it.
    pub(in crate::frameworks) const fn as_str(self) -> &'static str {
        match self {
            Self::Mp => "mp",
            Self::Ray => "ray",
        }
    }

    /// The user's choice; else Ray for graphs that were admitted before version 1, which must not change under them.
    pub(in crate::frameworks) fn chosen<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> Self {
        let named = annotation(annotations::VLLM_EXECUTOR_BACKEND);
        let chosen =
            [Self::Mp, Self::Ray].into_iter().find(|e| named.is_some_and(|n| n.eq_ignore_ascii_case(e.as_str())));
        let since_version_1 = || annotation(annotations::ORIGIN_VERSION).is_some_and(is_at_least_1);
        chosen.unwrap_or_else(|| if since_version_1() { Self::Mp } else { Self::Ray })
    }
}

/// Whether a version is 1.0.0 or later; `v1`, `1.2` and build metadata are fine, anything else is none. Takes more
/// suffixes than admission does: the answer must not change for a graph that is there.
fn is_at_least_1(version: &str) -> bool {
    let version = version.strip_prefix('v').unwrap_or(version);
    let version = version.split_once('+').map_or(version, |(version, _)| version);
    let (release, is_preview) = version.split_once('-').map_or((version, false), |(release, _)| (release, true));
    let numbers: Option<Vec<u64>> = release.split('.').map(|number| number.parse().ok()).collect();
    match numbers.as_deref() {
        Some([major, rest @ ..]) if rest.len() <= 2 => {
            *major > 1 || *major == 1 && !(is_preview && rest.iter().all(|number| *number == 0))
        }
        _ => false,
    }
}

pub(super) const EXECUTOR: &str = "--distributed-executor-backend";

const TENSOR: [&str; 2] = ["--tensor-parallel-size", "-tp"];
const PIPELINE: [&str; 2] = ["--pipeline-parallel-size", "-pp"];
const DATA: [&str; 2] = ["--data-parallel-size", "-dp"];

/// Parallel sizes that the user requests. A size that is not a number counts as not given: the engine reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parallel {
    tensor: i64,
    pipeline: i64,
    /// Engines side by side; `None` if the user does not say.
    pub(super) data: Option<i64>,
}

impl Parallel {
    pub(super) fn of(words: &[&str]) -> Self {
        let size = |names: &[&str]| command::value(words, names)?.parse::<i64>().ok().filter(|size| *size > 0);
        Self { tensor: size(&TENSOR).unwrap_or(1), pipeline: size(&PIPELINE).unwrap_or(1), data: size(&DATA) }
    }

    /// GPUs of one engine.
    pub(super) fn world(self) -> i64 {
        self.tensor.saturating_mul(self.pipeline)
    }
}

/// Spreads one engine over all nodes with processes that vLLM starts itself; returns whether there was one.
pub(super) fn span_with_processes(multinode: MultinodePod<'_>, main: &mut Container) -> bool {
    let MultinodePod { role, nodes, peers } = multinode;
    let rank = peers.rank(role);
    let headless = if role == NodeRole::Worker { " --headless" } else { "" };
    let flags = format!(
        "{EXECUTOR} mp --nnodes {nodes} --master-addr {} --master-port {} --node-rank {}{headless}",
        peers.leader(),
        ports::VLLM_MASTER,
        rank.flag
    );
    command::add_flags(main, &flags, rank.needs_shell, BackendFramework::Vllm)
}

/// Runs engines side by side on every node, balanced there; the frontend balances over the nodes. Returns whether there
/// was an engine.
pub(super) fn balance(parallel: Parallel, multinode: MultinodePod<'_>, gpus: i64, main: &mut Container) -> bool {
    let MultinodePod { role, nodes, peers } = multinode;
    let local = gpus / parallel.world().max(1);
    let (start, needs_shell) = match role {
        NodeRole::Leader => ("0".to_owned(), false),
        NodeRole::Worker => (format!("$(( {local} * {} ))", peers.rank(role).arithmetic), true),
    };
    let size = match parallel.data {
        Some(_) => String::new(),
        None => format!("{} {} ", DATA[0], local * i64::from(nodes)),
    };
    let flags = format!(
        "--data-parallel-hybrid-lb {size}--data-parallel-size-local {local} --data-parallel-start-rank {start} \
         --data-parallel-address {} --data-parallel-rpc-port {}",
        peers.leader(),
        ports::VLLM_DATA_PARALLEL_RPC
    );
    command::add_flags(main, &flags, needs_shell, BackendFramework::Vllm)
}

#[cfg(test)]
mod tests {
    use Executor::{Mp, Ray};

    use super::*;

    #[test]
    fn the_spec_takes_precedence_over_the_age_of_the_graph() {
        for (backend, origin, expected) in [
            (Some("mp"), None, Mp),
            (Some("RAY"), Some("1.5.0"), Ray),
            (Some("mpi"), Some("1.5.0"), Mp),
            (Some("mpi"), None, Ray),
            (None, Some("1.0.0"), Mp),
            (None, Some("v1.2"), Mp),
            (None, Some("2"), Mp),
            (None, Some("1.0.0-rc1"), Ray),
            (None, Some("1.0.1-rc1+build"), Mp),
            (None, Some("0.9.9"), Ray),
            (None, Some("latest"), Ray),
            (None, Some("1.2.3.4"), Ray),
            (None, Some(""), Ray),
            (None, None, Ray),
        ] {
            let annotation = |key: &str| match key {
                annotations::VLLM_EXECUTOR_BACKEND => backend,
                annotations::ORIGIN_VERSION => origin,
                _ => None,
            };
            assert_eq!(Executor::chosen(annotation), expected, "{backend:?} {origin:?}");
        }
    }
}
