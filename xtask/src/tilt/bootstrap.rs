//! Objects that the loop makes. Of what is there already, it replaces the one Secret that is its own.

use std::{collections::BTreeMap, env};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::{
    ByteString,
    api::core::v1::{Namespace, Secret},
};
use kube::{
    Client, Config, ResourceExt,
    api::{Api, ObjectMeta, Patch, PatchParams, PostParams},
    config::KubeConfigOptions,
};
use serde::de::DeserializeOwned;
use serde_json::json;

/// Where the cluster is.
#[derive(Debug, clap::Args)]
struct Place {
    /// Context of the kubeconfig
    #[arg(long)]
    context: String,
    /// Namespace of the operator
    #[arg(long)]
    namespace: String,
}

/// Makes the Secret by which the cluster pulls, or replaces the one that it made.
#[derive(Debug, clap::Args)]
pub(crate) struct SecretArgs {
    #[command(flatten)]
    place: Place,
    /// Host of the registry, with the path of the images
    #[arg(long)]
    registry: String,
}

/// Makes what the development manifests refer to.
#[derive(Debug, clap::Args)]
pub(crate) struct BootstrapArgs {
    #[command(flatten)]
    place: Place,
}

/// Name of the pull Secret; the Tiltfile names it to the chart.
const PULL_SECRET: &str = "registry-secret";
/// Manager of the pull Secret. One without this label is foreign.
const MANAGER: (&str, &str) = ("app.kubernetes.io/managed-by", "dynamo-tilt");
/// The Secret that the webhook sink reads, if it is there.
const STUB: &str = "webhook-echo";

pub(super) async fn secret(args: &SecretArgs) -> Result<()> {
    let variable = |name: &str| env::var(name).with_context(|| format!("{name} is not set"));
    let (user, password) = (variable("REGISTRY_USERNAME")?, variable("REGISTRY_PASSWORD")?);
    let host = args.registry.split('/').next().unwrap_or_default();
    ensure!(!host.is_empty(), "no registry; set `registry`");
    // Docker's own registry is known under a name of the past.
    let host = if host == "docker.io" { "https://index.docker.io/v1/" } else { host };
    let content = json!({ "auths": { host: { "username": user, "password": password } } }).to_string();
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(PULL_SECRET.to_owned()),
            labels: Some(BTreeMap::from([(MANAGER.0.to_owned(), MANAGER.1.to_owned())])),
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/dockerconfigjson".to_owned()),
        data: Some(BTreeMap::from([(".dockerconfigjson".to_owned(), ByteString(content.into_bytes()))])),
        ..Secret::default()
    };
    let client = client(&args.place).await?;
    make_namespace(&client, &args.place.namespace).await?;
    replace(&Api::namespaced(client, &args.place.namespace), &secret).await
}

/// Writes the pull Secret, unless one is there that the loop has not made. Its content is not printed.
async fn replace(secrets: &Api<Secret>, secret: &Secret) -> Result<()> {
    let present = secrets.get_opt(PULL_SECRET).await.with_context(|| format!("cannot read {PULL_SECRET}"))?;
    if present.is_some_and(|present| present.labels().get(MANAGER.0).is_none_or(|manager| manager != MANAGER.1)) {
        bail!(
            "there is a Secret {PULL_SECRET} that this loop has not made: delete it, or name it in image_pull_secret"
        );
    }
    let params = PatchParams::apply(MANAGER.1).force();
    secrets
        .patch(PULL_SECRET, &params, &Patch::Apply(secret))
        .await
        .with_context(|| format!("cannot write {PULL_SECRET}"))?;
    println!("wrote {PULL_SECRET}");
    Ok(())
}

pub(super) async fn bootstrap(args: &BootstrapArgs) -> Result<()> {
    let client = client(&args.place).await?;
    make_namespace(&client, &args.place.namespace).await?;
    let stub = Secret {
        metadata: ObjectMeta { name: Some(STUB.to_owned()), ..ObjectMeta::default() },
        string_data: Some(BTreeMap::from([("token".to_owned(), "not-a-secret".to_owned())])),
        ..Secret::default()
    };
    make(&Api::namespaced(client, &args.place.namespace), &stub, STUB).await
}

async fn client(place: &Place) -> Result<Client> {
    let options = KubeConfigOptions { context: Some(place.context.clone()), ..KubeConfigOptions::default() };
    let config = Config::from_kubeconfig(&options).await.with_context(|| format!("no context {}", place.context))?;
    Ok(Client::try_from(config)?)
}

async fn make_namespace(client: &Client, name: &str) -> Result<()> {
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    make(&Api::all(client.clone()), &namespace, name).await
}

/// Creates an object unless one of its name is there, whatever that holds.
async fn make<K>(api: &Api<K>, object: &K, name: &str) -> Result<()>
where
    K: Clone + std::fmt::Debug + serde::Serialize + DeserializeOwned,
{
    match api.create(&PostParams::default(), object).await {
        Ok(_) => println!("made {name}"),
        Err(kube::Error::Api(status)) if status.code == 409 => println!("{name} is there; left as it is"),
        Err(error) => return Err(error).with_context(|| format!("cannot make {name}")),
    }
    Ok(())
}
