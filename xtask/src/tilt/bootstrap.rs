//! Objects that the loop makes. Of what is there already, it replaces the one Secret that is its own.

use std::env;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::{
    ByteString,
    api::core::v1::{Namespace, Secret},
};
use kube::{
    Client, Config, ResourceExt,
    api::{Api, Patch, PatchParams, PostParams},
    config::KubeConfigOptions,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Location of the cluster
#[derive(Debug, clap::Args)]
pub(crate) struct Place {
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
    let secret = serde_json::from_value(json!({
        "metadata": { "name": PULL_SECRET, "labels": { MANAGER.0: MANAGER.1 } },
        "type": "kubernetes.io/dockerconfigjson",
        "data": { ".dockerconfigjson": ByteString(content.into_bytes()) },
    }))?;
    replace(&args.place.secrets().await?, &secret).await
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

/// Makes what the development manifests refer to.
pub(super) async fn bootstrap(place: &Place) -> Result<()> {
    let stub = json!({ "metadata": { "name": STUB }, "stringData": { "token": "not-a-secret" } });
    make(&place.secrets().await?, stub).await
}

impl Place {
    /// The Secrets of the namespace, which is made if it is missing.
    async fn secrets(&self) -> Result<Api<Secret>> {
        let options = KubeConfigOptions { context: Some(self.context.clone()), ..KubeConfigOptions::default() };
        let config = Config::from_kubeconfig(&options).await.with_context(|| format!("no context {}", self.context))?;
        let client = Client::try_from(config)?;
        make(&Api::<Namespace>::all(client.clone()), json!({ "metadata": { "name": self.namespace } })).await?;
        Ok(Api::namespaced(client, &self.namespace))
    }
}

/// Creates an object unless one of its name is there, whatever that holds.
async fn make<K>(api: &Api<K>, object: Value) -> Result<()>
where
    K: ResourceExt + Clone + std::fmt::Debug + serde::Serialize + DeserializeOwned,
{
    let object: K = serde_json::from_value(object)?;
    let name = object.name_any();
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => println!("made {name}"),
        Err(kube::Error::Api(status)) if status.code == 409 => println!("{name} is there; left as it is"),
        Err(error) => return Err(error).with_context(|| format!("cannot make {name}")),
    }
    Ok(())
}
