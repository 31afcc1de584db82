//! Watches of what Grove serves, and what they wake.

use api_types::{
    grove::{PodClique, PodCliqueScalingGroup, PodCliqueSet},
    labels,
    v1beta1::DynamoGraphDeployment,
};
use controller_kit::{
    controller::Controller,
    process::Context,
    pull_secrets::{self, Following, PullSecrets},
    store::{Index, Key, Packed, ServedApis, Store, Watch, controller_owner, watch_if_served},
};
use futures::{StreamExt, stream};
use kube::ResourceExt;

use super::concerns::Concern;
use crate::graph::{apply::graph_of, observe::grove::GroveCaches};

/// The watches of what Grove serves. They say nothing while it does not.
pub(super) struct GroveWatches {
    sets: Watch<Packed<PodCliqueSet>>,
    cliques: Watch<Packed<PodClique>>,
    groups: Watch<Packed<PodCliqueScalingGroup>>,
    pull_secrets: Option<Following>,
}

/// Caches what Grove serves, and image pull secrets: the pods of graphs on Grove are rendered here.
pub(super) fn open(context: &Context, apis: &ServedApis) -> (GroveCaches, GroveWatches) {
    let scope = &context.scope;
    let (sets, set_watch) = watch_if_served(apis, scope, Some(labels::GRAPH));
    let (cliques, clique_watch) = watch_if_served(apis, scope, Some(labels::GRAPH));
    let (groups, group_watch) = watch_if_served(apis, scope, None);
    let secrets = context.settings.image_pull_secret_discovery.enabled.then(PullSecrets::default);
    let following = secrets.as_ref().map(|secrets| pull_secrets::follow(context, secrets));
    let watches = GroveWatches { sets: set_watch, cliques: clique_watch, groups: group_watch, pull_secrets: following };
    (GroveCaches { sets, cliques, groups, pull_secrets: secrets }, watches)
}

impl GroveWatches {
    /// Returns when the image pull secrets are known, or that there is no right to know them.
    pub(super) async fn know_pull_secrets(&mut self) {
        if let Some(following) = &mut self.pull_secrets {
            // Fails only when the process is to stop.
            let _ = (&mut following.complete).await;
        }
    }

    /// Lets them wake graphs.
    pub(super) fn wake(
        self,
        controller: Controller<DynamoGraphDeployment>,
        sets: &Store<Packed<PodCliqueSet>>,
        graphs: &Index<Concern>,
    ) -> Controller<DynamoGraphDeployment> {
        let sets = sets.clone();
        let controller = controller
            .triggered_by(self.sets, |set| graph_of(set).into_iter().collect())
            .triggered_by(self.cliques, |clique| graph_of(clique).into_iter().collect())
            // A group carries no label of its graph.
            .triggered_by(self.groups, move |group| graph_of_group(&sets, group).into_iter().collect());
        let Some(Following { changed, .. }) = self.pull_secrets else { return controller };
        let graphs = graphs.clone();
        let keys = changed.flat_map(move |namespace| stream::iter(graphs.get(&Concern::Namespace(namespace))));
        controller.also(keys.boxed())
    }
}

fn graph_of_group(sets: &Store<Packed<PodCliqueSet>>, group: &Packed<PodCliqueScalingGroup>) -> Option<Key> {
    let owner = controller_owner(group)?;
    let set = sets.get(&Key::new(&group.namespace()?, &owner.name))?;
    graph_of(set.as_ref())
}
