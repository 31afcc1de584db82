//! `crds apply`.

use std::{fmt, time::Duration};

use anyhow::{Context, bail};
use api_types::crds::{self, ConversionService};
use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinition, CustomResourceDefinitionCondition,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Client, ResourceExt,
    api::{Api, Patch, PatchParams},
    runtime::wait::{Condition, await_condition, conditions::is_crd_established},
};

use crate::{
    cluster::{ClusterArgs, FIELD_MANAGER},
    migrate::{self, Done, Migration},
    stored::{self, Release},
};

/// Between two tries, if another writer was faster.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// A version that no definition has: an apply that names it makes one, and is refused as a conflict where one is.
const OF_NO_OBJECT: &str = "1";

/// Flags of `crds apply`.
#[derive(clap::Args)]
pub(crate) struct CrdsApplyArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Service that converts between versions, NAMESPACE/NAME[:PORT] [default: the one that the live definition names;
    /// dynamo-system/dynamo-operator-webhook-service where there is none]
    #[arg(long, value_name = "SERVICE")]
    webhook_service: Option<ConversionService>,
    /// Leave objects stored as they are; a later run without this flag stores them in today's version
    #[arg(long)]
    skip_migration: bool,
}

/// Service that converts after an existing definition is applied.
#[derive(Clone, Copy)]
enum Converter {
    /// The one that the live definition names, which the install of the webhook server has written.
    OfLive,
    /// The one that the arguments give.
    Given,
}

pub(crate) fn run(args: &CrdsApplyArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let work = async {
        let client = args.cluster.client().await?;
        let names = definitions(&client, args.webhook_service.as_ref()).await?;
        if !args.skip_migration {
            let mut done = Done::default();
            for name in &names {
                migrate(&client, name, &mut done).await?;
            }
        }
        Ok(())
    };
    runtime.block_on(args.cluster.in_time(work))
}

/// A state of a definition: no two states of the spec have the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DefinitionRevision {
    pub uid: Option<String>,
    pub generation: Option<i64>,
}

impl DefinitionRevision {
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self { uid: metadata.uid.clone(), generation: metadata.generation }
    }
}

/// Applies all definitions and waits until they are served. Returns their names.
async fn definitions(client: &Client, service: Option<&ConversionService>) -> anyhow::Result<Vec<String>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let converter = if service.is_some() { Converter::Given } else { Converter::OfLive };
    let crds = crds::all_converted_by(&service.cloned().unwrap_or_default())?;
    // All of them before the first is written, so that a rejection leaves the cluster as it was.
    for crd in &crds {
        let name = crd.name_any();
        let live = api.get_opt(&name).await.with_context(|| format!("cannot apply {name}"))?;
        live.map_or(Ok(()), |live| stored::refuse_older(&live, crd))?;
    }
    let mut all = Vec::new();
    for crd in &crds {
        let name = crd.name_any();
        let applied = apply(&api, crd, converter).await.with_context(|| format!("cannot apply {name}"))?;
        all.push((name, applied));
    }
    let mut names = Vec::new();
    for (name, applied) in all {
        if let DefinitionOutcome::Kept { newer } = applied.outcome {
            bail!("{name} was written by release {newer} meanwhile, which is newer than this program");
        }
        established(&api, &name).await.with_context(|| format!("{name} was applied but is not served"))?;
        println!("{name} {}", applied.outcome);
        names.push(name);
    }
    Ok(names)
}

/// Applies one definition and waits until it is served.
pub(crate) async fn definition(
    api: &Api<CustomResourceDefinition>,
    crd: &CustomResourceDefinition,
) -> anyhow::Result<AppliedDefinition> {
    let name = crd.name_any();
    let applied = apply(api, crd, Converter::Given).await.with_context(|| format!("cannot apply {name}"))?;
    if !matches!(applied.outcome, DefinitionOutcome::Kept { .. }) {
        established(api, &name).await.with_context(|| format!("{name} was applied but is not served"))?;
    }
    Ok(applied)
}

/// Stores the objects of a definition anew where that is due.
pub(crate) async fn migrate(client: &Client, name: &str, done: &mut Done) -> anyhow::Result<()> {
    let migration = migrate::migrate(client, name, done).await;
    let Migration { rewritten, cleaned } =
        migration.with_context(|| format!("{name}: not all objects are migrated"))?;
    if rewritten + cleaned > 0 {
        println!("{name} migrated: {rewritten} objects stored anew, {cleaned} freed of versions not served any more");
    }
    Ok(())
}

/// Result of applying a definition.
#[derive(Debug, PartialEq)]
pub(crate) enum DefinitionOutcome {
    Created,
    /// Another field manager may have written it last.
    Updated {
        last_writer: Option<String>,
    },
    Unchanged,
    /// Not written: the live one comes from a newer release.
    Kept {
        newer: Release,
    },
}

impl fmt::Display for DefinitionOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Created => write!(f, "created"),
            Self::Updated { .. } => write!(f, "updated"),
            Self::Unchanged => write!(f, "unchanged"),
            Self::Kept { newer } => write!(f, "kept: it is of release {newer}, which is newer than this program"),
        }
    }
}

/// A definition that was applied.
#[derive(Debug, PartialEq)]
pub(crate) struct AppliedDefinition {
    pub outcome: DefinitionOutcome,
    pub revision: DefinitionRevision,
}

/// Applies one definition. Others may write it meanwhile, a later release too: every try
/// looks anew at what is there. Each try that loses is one that another writer has won, so there is an end to it.
async fn apply(
    api: &Api<CustomResourceDefinition>,
    crd: &CustomResourceDefinition,
    converter: Converter,
) -> anyhow::Result<AppliedDefinition> {
    loop {
        let live = api.get_opt(&crd.name_any()).await?;
        if let Some(applied) = write(api, crd, converter, live.as_ref()).await? {
            return Ok(applied);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Applies a definition on top of the live one, if that is still there as it was seen; none if another writer came
/// between.
async fn write(
    api: &Api<CustomResourceDefinition>,
    crd: &CustomResourceDefinition,
    converter: Converter,
    live: Option<&CustomResourceDefinition>,
) -> anyhow::Result<Option<AppliedDefinition>> {
    if let Some(live) = live {
        if let Some(newer) = stored::newer_release(live, crd) {
            return Ok(Some(AppliedDefinition {
                outcome: DefinitionOutcome::Kept { newer },
                revision: DefinitionRevision::of(&live.metadata),
            }));
        }
        stored::refuse_downgrade(live, crd)?;
    }
    let mut desired = live.map_or_else(|| crd.clone(), |live| stored::with_versions_of(crd, live));
    if let (Converter::OfLive, Some(live)) = (converter, live) {
        stored::keep_converter(&mut desired, live);
    }
    let version = live.map_or_else(|| Some(OF_NO_OBJECT.to_owned()), ResourceExt::resource_version);
    desired.metadata.resource_version.clone_from(&version);
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let after = match api.patch(&crd.name_any(), &params, &Patch::Apply(&desired)).await {
        Err(kube::Error::Api(status)) if status.code == 409 => return Ok(None),
        after => after?,
    };
    let outcome = match live {
        None => DefinitionOutcome::Created,
        Some(_) if after.resource_version() == version => DefinitionOutcome::Unchanged,
        Some(live) => DefinitionOutcome::Updated { last_writer: stored::last_writer(live).map(str::to_owned) },
    };
    Ok(Some(AppliedDefinition { outcome, revision: DefinitionRevision::of(&after.metadata) }))
}

/// Waits until the API server serves the definition; fails as soon as it says that it will not.
async fn established(api: &Api<CustomResourceDefinition>, name: &str) -> anyhow::Result<()> {
    let has_ended = |crd: Option<&CustomResourceDefinition>| {
        crd.is_none_or(|crd| is_crd_established().matches_object(Some(crd)) || rejection(crd).is_some())
    };
    let crd = await_condition(api.clone(), name, has_ended).await?.context("it was deleted meanwhile")?;
    if let Some(rejection) = rejection(&crd) {
        bail!("the API server rejects its names: {}", rejection.message.as_deref().unwrap_or("no reason"));
    }
    Ok(())
}

/// The condition by which the API server says that the names collide with those of another definition.
fn rejection(crd: &CustomResourceDefinition) -> Option<&CustomResourceDefinitionCondition> {
    let conditions = crd.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "NamesAccepted" && condition.status == "False")
}

#[cfg(test)]
mod tests {
    use kube::api::{DeleteParams, PostParams};
    use test_cluster::{Cluster, Controllers, Options, wait};

    use super::*;

    const MODELS: &str = "dynamomodels.nvidia.com";

    /// The definition of models as of a release with one more version, with that version stored or not.
    fn later(ours: &CustomResourceDefinition, stored: bool) -> CustomResourceDefinition {
        let mut later = ours.clone();
        let mut version = later.spec.versions[0].clone();
        version.name = "v1beta1".to_owned();
        version.storage = stored;
        later.spec.versions[0].storage = !stored;
        later.spec.versions.push(version);
        later
    }

    /// Whatever is written between a look and the write that rests on it, the write is refused and what is there looked
    /// at anew.
    #[tokio::test]
    async fn a_later_release_that_comes_between_is_not_overwritten() {
        let cluster = Cluster::start(Options { controllers: Controllers::Off, ..Options::default() }).await.unwrap();
        let api: Api<CustomResourceDefinition> = Api::all(cluster.client().unwrap());
        let ours = crds::all().unwrap().into_iter().find(|crd| crd.name_any() == MODELS).unwrap();
        let storage = async || {
            let versions = api.get(MODELS).await.unwrap().spec.versions;
            versions.into_iter().find(|version| version.storage).unwrap().name
        };

        assert_eq!(
            apply(&api, &later(&ours, false), Converter::OfLive).await.unwrap().outcome,
            DefinitionOutcome::Created
        );
        established(&api, MODELS).await.unwrap();
        let seen = api.get(MODELS).await.unwrap();
        let params = PatchParams::apply("later").force();
        api.patch(MODELS, &params, &Patch::Apply(later(&ours, true))).await.unwrap();
        assert_eq!(write(&api, &ours, Converter::OfLive, Some(&seen)).await.unwrap(), None);
        assert_eq!(storage().await, "v1beta1");
        assert!(apply(&api, &ours, Converter::OfLive).await.unwrap_err().to_string().contains("which is older"));

        api.delete(MODELS, &DeleteParams::default()).await.unwrap();
        let gone = async || api.get_opt(MODELS).await.unwrap().map_or(Ok(()), |_| Err("still there"));
        wait::until("the definition to go", Duration::from_secs(90), gone).await.unwrap();
        api.create(&PostParams::default(), &later(&ours, true)).await.unwrap();
        assert_eq!(write(&api, &ours, Converter::OfLive, None).await.unwrap(), None, "it was seen missing");
        assert_eq!(storage().await, "v1beta1");
    }

    #[tokio::test]
    async fn a_definition_that_is_deleted_meanwhile_is_not_awaited() {
        let cluster = Cluster::start(Options { controllers: Controllers::Off, ..Options::default() }).await.unwrap();
        let api: Api<CustomResourceDefinition> = Api::all(cluster.client().unwrap());
        let awaited = tokio::time::timeout(Duration::from_secs(30), established(&api, MODELS)).await;
        assert!(awaited.expect("an answer at once").unwrap_err().to_string().contains("deleted meanwhile"));
    }
}
