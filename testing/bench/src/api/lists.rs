//! Lists of many graphs, through the API server, in the version that is stored and in the other one.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use http::Request;
use kube::{Client, api::PostParams, core::DynamicObject};
use test_cluster::Cluster;

use super::{
    super::{
        figures::Percentiles,
        graph::{graph, graphs_in},
    },
    COMPONENTS,
};

/// As many users at once.
const PARALLEL: usize = 8;

pub(super) struct Lists {
    /// In the version that is stored.
    pub(super) stored: Percentiles,
    /// In the other one.
    pub(super) converted: Percentiles,
}

/// Stores `graphs` graphs and lists them `turns` times in each version, by turns, so that both see the same machine.
pub(super) async fn measure(cluster: &Cluster, graphs: usize, turns: usize) -> Result<Lists> {
    let client = cluster.client()?;
    make(&client, graphs).await?;
    let (mut stored, mut converted) = (Vec::new(), Vec::new());
    // The first lists fill caches.
    for turn in 0..=turns {
        for (version, times) in [("v1beta1", &mut stored), ("v1alpha1", &mut converted)] {
            let took = list(&client, version, graphs).await?;
            if turn > 0 {
                times.push(took);
            }
        }
    }
    Ok(Lists { stored: Percentiles::of(stored.into_iter()), converted: Percentiles::of(converted.into_iter()) })
}

async fn make(client: &Client, graphs: usize) -> Result<()> {
    let api = graphs_in(client, "default");
    let create = async |index: usize| -> Result<()> {
        let object: DynamicObject = serde_json::from_value(graph(&format!("chat-{index:05}"), COMPONENTS))?;
        api.create(&PostParams::default(), &object).await.context("cannot create a graph")?;
        Ok(())
    };
    stream::iter(0..graphs).map(create).buffer_unordered(PARALLEL).try_for_each(async |()| Ok(())).await
}

async fn list(client: &Client, version: &str, graphs: usize) -> Result<Duration> {
    let path = format!("/apis/{}/{version}/namespaces/default/dynamographdeployments", api_types::GROUP);
    let begin = Instant::now();
    let answer = client.request_text(Request::get(path).body(Vec::new())?).await.context("cannot list graphs")?;
    let took = begin.elapsed();
    let found = answer.matches("\"kind\":\"DynamoGraphDeployment\"").count();
    ensure!(found == graphs, "{found} of {graphs} graphs are listed in {version}");
    Ok(took)
}
