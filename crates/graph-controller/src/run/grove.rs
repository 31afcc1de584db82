//! Watches of what Grove serves, and what they wake.

use api_types::{
    grove::{PodClique, PodCliqueScalingGroup, PodCliqueSet},
    labels,
    v1beta1::DynamoGraphDeployment,
};
use controller_kit::{
    context::Context,
    controller::Wiring,
    pull_secrets::{self, Following, PullSecrets},
    store::{Index, Key, Packed, Store, controller_owner, keep},
};
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use kube::ResourceExt;

use super::{concerns::Concern, graph_keys};
use crate::graph::{apply::graph_of, observe::grove::GroveCaches};

/// Caches what Grove serves, and image pull secrets: the pods of graphs on Grove are rendered here.
pub(super) fn open(context: &Context, wiring: &mut Wiring<DynamoGraphDeployment>) -> (GroveCaches, Option<Following>) {
    let sets = wiring.watched_if_served_by::<PodCliqueSet>(
        labels::GRAPH,
        keep::templates_of::<DynamoGraphDeployment>,
        graph_keys,
    );
    let cliques = wiring.watched_if_served::<PodClique>(Some(labels::GRAPH), graph_keys);
    // A group carries no label of its graph.
    let known = sets.clone();
    let of_group = move |group: &_| graph_of_group(&known, group).into_iter().collect();
    let groups = wiring.watched_if_served::<PodCliqueScalingGroup>(None, of_group);
    let secrets = context.settings.image_pull_secret_discovery.enabled.then(PullSecrets::default);
    let following = secrets.as_ref().map(|secrets| pull_secrets::follow(context, secrets));
    (GroveCaches { sets, cliques, groups, pull_secrets: secrets }, following)
}

/// Returns when the image pull secrets are known, or that there is no right to know them.
pub(super) async fn know_pull_secrets(following: Option<&mut Following>) {
    if let Some(following) = following {
        // Fails only when the process is to stop.
        let _ = (&mut following.complete).await;
    }
}

/// The graphs of the namespaces whose image pull secrets change.
pub(super) fn of_pull_secrets(following: Following, graphs: &Index<Concern>) -> BoxStream<'static, Key> {
    let graphs = graphs.clone();
    let keys = move |namespace| stream::iter(graphs.get(&Concern::Namespace(namespace)));
    following.changed.flat_map(keys).boxed()
}

fn graph_of_group(sets: &Store<Packed<PodCliqueSet>>, group: &Packed<PodCliqueScalingGroup>) -> Option<Key> {
    let owner = controller_owner(group)?;
    let set = sets.get(&Key::new(&group.namespace()?, &owner.name))?;
    graph_of(set.as_ref())
}
