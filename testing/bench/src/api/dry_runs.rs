//! Dry runs of a new graph through the API server, with and without the webhook server.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::api::{Api, PostParams};
use local_operator::UNCHECKED_NAMESPACE;
use serde_json::json;
use test_cluster::Cluster;

use super::{
    super::{
        figures::Percentiles,
        graph::{graph, graphs_in},
    },
    COMPONENTS, WARM,
};

pub(super) struct DryRuns {
    /// The webhook server sets defaults and validates.
    pub(super) checked: Percentiles,
    /// The API server calls no webhook.
    pub(super) unchecked: Percentiles,
}

/// Sends so many dry runs of each sort, by turns, so that both see the same machine.
pub(super) async fn measure(cluster: &Cluster, requests: usize) -> Result<DryRuns> {
    let client = cluster.client()?;
    cluster
        .apply(&[json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": UNCHECKED_NAMESPACE } })])
        .await?;
    let graph = serde_json::from_value(graph("chat", COMPONENTS))?;
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let create = async |api: &Api<_>| -> Result<Duration> {
        let begin = Instant::now();
        api.create(&params, &graph).await.context("a dry run was rejected")?;
        Ok(begin.elapsed())
    };
    let (in_default, in_unchecked) = (graphs_in(&client, "default"), graphs_in(&client, UNCHECKED_NAMESPACE));
    let (mut checked, mut unchecked) = (Vec::new(), Vec::new());
    for turn in 0..WARM + requests {
        for (api, times) in [(&in_default, &mut checked), (&in_unchecked, &mut unchecked)] {
            let took = create(api).await?;
            if turn >= WARM {
                times.push(took);
            }
        }
    }
    Ok(DryRuns { checked: Percentiles::of(checked.into_iter()), unchecked: Percentiles::of(unchecked.into_iter()) })
}
