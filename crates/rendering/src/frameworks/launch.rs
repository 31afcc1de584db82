//! Everything about a pod that an engine's command line depends on.

use api_types::{
    names,
    v1beta1::{BackendFramework, EngineMode},
};
use k8s_openapi::api::core::v1::Container;

use super::{multinode::MultinodePod, vllm::executor::Executor};
use crate::{ValidatedComponent, gpus, model::CacheMount};

/// Everything about a pod that an engine's command line depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch<'a> {
    pub(super) framework: Option<BackendFramework>,
    pub(super) cache: Option<CacheMount<'a>>,
    /// `None`: the component is standalone.
    pub(super) graph: Option<&'a str>,
    /// `None`: the pod is a replica by itself.
    pub(super) multinode: Option<MultinodePod<'a>>,
    pub(super) executor: Executor,
    /// Engines in other pods use the same GPU memory.
    pub(super) shares_gpu_memory: bool,
    /// Another engine may take over.
    pub(super) stands_by: bool,
    /// Secret with the key pair by which the nodes of a replica trust each other.
    pub(super) mpi_secret: &'a str,
    /// GPUs that the main container has through claims.
    pub(super) claimed_gpus: u32,
}

impl<'a> Launch<'a> {
    /// Of a pod at that place of its replica. `mpi_secret` is what the operator's settings say.
    pub(crate) fn of(
        valid: &'a ValidatedComponent<'_>,
        multinode: Option<MultinodePod<'a>>,
        mpi_secret: Option<&'a str>,
        claimed_gpus: u32,
    ) -> Self {
        let shared = valid.shared_gpus.filter(|shared| shared.mode == EngineMode::InterPod);
        Self {
            framework: valid.framework,
            cache: valid.cache,
            graph: valid.graph(),
            multinode,
            executor: Executor::chosen(|key| valid.annotation(key)),
            shares_gpu_memory: shared.is_some(),
            stands_by: shared.is_some_and(|shared| shared.standbys > 0),
            mpi_secret: mpi_secret.unwrap_or(names::MPI_SECRET),
            claimed_gpus,
        }
    }

    /// GPUs of one pod. Scalar resources count first; what is no whole number counts as none, for the API server
    /// refuses such a pod.
    pub(super) fn gpus_of(&self, main: &Container) -> i64 {
        let scalar = gpus::count(main.resources.as_ref()).unwrap_or(0);
        i64::from(if scalar > 0 { scalar } else { self.claimed_gpus })
    }
}

/// A node that only lends its GPUs answers no probe.
pub(super) fn remove_probes(main: &mut Container) {
    main.liveness_probe = None;
    main.readiness_probe = None;
    main.startup_probe = None;
}
