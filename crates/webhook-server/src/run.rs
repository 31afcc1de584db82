//! The server as a whole.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use api_types::REFERENCE_VERSION;
use controller_kit::{
    context::Context,
    settings::{self, Dns, OperatorConfiguration, Webhook},
    store::Scope,
};
use futures::future::OptionFuture;
use kube::Client;
use tokio::{net::TcpListener, sync::watch};
use tracing::{info, warn};

use super::configurations::Host;
use crate::{
    access::CA_CONFIG_MAP,
    admission::{CheckpointSettings, Facts},
    certificates::{CertificateKeeper, plan::Policy},
    facts::observe::FactSource,
    mpi_key::KeyMaker,
    serve::{Clients, ClientsError, CurrentCertificate, RequestMetrics, Service, drain_grace, serve},
};

/// File with the namespace of a pod.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Flags of the webhook server.
#[derive(Debug, Clone, clap::Args)]
pub struct ServerArgs {
    /// Namespace that the operator is installed in; default: that of the pod
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE", global = true)]
    pub operator_namespace: Option<String>,

    /// Service by which the API server finds this server; default: server.webhook.serviceName of the configuration
    #[arg(long, value_name = "NAME", env = "DYNAMO_WEBHOOK_SERVICE", global = true)]
    pub service_name: Option<String>,

    /// ConfigMap for the CA bundle that definitions are to hold, in the operator's namespace; `crds serve` reads it
    #[arg(long, value_name = "NAME", default_value = CA_CONFIG_MAP, global = true)]
    pub ca_config_map: String,

    /// Address of admission and conversion; default: server.webhook.host and .port of the configuration
    #[arg(long, value_name = "ADDRESS", env = "DYNAMO_WEBHOOK_ADDRESS", global = true)]
    pub webhook_address: Option<SocketAddr>,

    /// File of the CAs that sign client certificates of API servers: admission is then for clients with such a
    /// certificate only. API servers show none for conversion, which goes on without. The file is read again when it
    /// changes
    #[arg(long, value_name = "FILE", env = "DYNAMO_CLIENT_CA_FILE", global = true)]
    pub client_ca_file: Option<PathBuf>,

    /// Version that new graphs are stamped with
    #[arg(long, value_name = "VERSION", default_value = REFERENCE_VERSION, env = "DYNAMO_OPERATOR_VERSION", global = true)]
    pub operator_version: String,

    /// Image for DynamoGraphDeploymentRequests that name none; default: made from the operator's version
    #[arg(long, value_name = "IMAGE", env = "DYNAMO_DGDR_DEFAULT_IMAGE", global = true)]
    pub dgdr_default_image: Option<String>,

    /// User names of the operator's own ServiceAccounts, separated by commas: what only the operator may do, they may
    #[arg(long, value_name = "USERS", value_delimiter = ',', env = "DYNAMO_OPERATOR_ACCOUNTS", global = true)]
    pub operator_accounts: Vec<String>,

    /// Time that a stopping server waits for clients to close connections that they do not use. API
    /// servers do so after 90 s; a connection that is ended from here may cost a call. The pod's grace period is to be
    /// 10 s longer
    #[arg(long, value_name = "SECONDS", default_value_t = 95, env = "DYNAMO_IDLE_CONNECTION_SECONDS", global = true)]
    pub idle_connection_seconds: u16,
}

/// Reason why the server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Certificates are made for a Service.
    #[error("no Service: set --service-name, or server.webhook.serviceName in the configuration")]
    NoService,
    /// The certificates' Secret is in the operator's namespace.
    #[error("no namespace: set --operator-namespace, or run in a pod with a ServiceAccount")]
    NoNamespace,
    /// The configured host is no address.
    #[error("server.webhook.host: {0:?} is no IP address")]
    Host(String),
    /// The address is not free.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// As configured.
        address: SocketAddr,
        /// Reason.
        source: std::io::Error,
    },
    /// The CAs of clients, or TLS itself.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] ClientsError),
}

impl ServerArgs {
    /// The Service that the API server calls.
    ///
    /// # Errors
    /// If its name or namespace is not known.
    pub fn host(&self, configured: &Webhook, dns: &Dns) -> Result<Host, RunError> {
        let given = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        let service = given(self.service_name.as_deref()).or_else(|| given(Some(&configured.service_name)));
        let of_pod = || std::fs::read_to_string(NAMESPACE_FILE).ok();
        let namespace = given(self.operator_namespace.as_deref()).or_else(|| given(of_pod().as_deref()));
        let (service, namespace) = (service.ok_or(RunError::NoService)?, namespace.ok_or(RunError::NoNamespace)?);
        Ok(Host { service, namespace, domain: dns.cluster_domain.clone() })
    }

    /// Clients whose requests are answered.
    fn clients(&self, converts: bool) -> Clients {
        match self.client_ca_file.clone().filter(|file| !file.as_os_str().is_empty()) {
            Some(file) => Clients::SignedBy { file, converts },
            None => Clients::Any,
        }
    }

    /// The longest that the process takes to end after the signal to stop.
    #[must_use]
    pub fn grace(&self) -> Duration {
        drain_grace(self.idle())
    }

    fn idle(&self) -> Duration {
        Duration::from_secs(self.idle_connection_seconds.into())
    }

    fn address(&self, configured: &Webhook) -> Result<SocketAddr, RunError> {
        if let Some(address) = self.webhook_address {
            return Ok(address);
        }
        let host = configured.host.parse().map_err(|_| RunError::Host(configured.host.clone()))?;
        Ok(SocketAddr::new(host, configured.port))
    }

    /// Returns the facts for the rules that never change.
    fn facts(&self, context: &Context) -> Facts {
        Facts {
            operators: self.operator_accounts.clone(),
            shared_servers: context.scope == Scope::Cluster && meets_in_servers(&context.settings),
            operator_version: self.operator_version.clone(),
            request_image: self.dgdr_default_image.clone(),
            checkpoints: checkpoints(context),
            exposure: Some(context.settings.pods().exposure),
            ..Facts::default()
        }
    }
}

/// Whether components of different graphs can meet in etcd or NATS.
fn meets_in_servers(settings: &OperatorConfiguration) -> bool {
    settings.discovery.backend == settings::DiscoveryBackend::Etcd || !settings.infrastructure.nats_address.is_empty()
}

/// Returns the settings for starting pods from checkpoints. Storage that is configured wrongly counts as no storage;
/// the controllers report it on the objects that need it.
fn checkpoints(context: &Context) -> CheckpointSettings {
    let Some(checkpoints) = context.settings.checkpoint.if_enabled() else { return CheckpointSettings::default() };
    let storage = checkpoints.storage.storage().unwrap_or_else(|problem| {
        warn!(%problem, "pods start from checkpoints only where snapshot agents keep them");
        None
    });
    CheckpointSettings { storage, seccomp_profile: checkpoints.seccomp_profile }
}

/// Runs until the signal to stop, then drains.
///
/// `install` is a client for what belongs to the install itself: no fence keeps it from that.
///
/// # Errors
/// If the server cannot start. What goes wrong later is retried, and shows in logs and metrics.
pub async fn run(context: Context, args: ServerArgs, install: Client) -> Result<(), RunError> {
    let configured = &context.settings.server.webhook;
    let (host, address) = (args.host(configured, &context.settings.dns)?, args.address(configured)?);
    let listener = TcpListener::bind(address).await.map_err(|source| RunError::Listen { address, source })?;
    let converts = context.scope == Scope::Cluster;
    let (serving, clients) = (CurrentCertificate::default(), args.clients(converts));
    let (acceptor, content) = clients.acceptor(&serving)?;
    let (acceptors, acceptor) = watch::channel(acceptor);
    info!(%address, service = host.name(), converts, "serving admission and conversion");

    let policy = Policy { mode: configured.cert_provision_mode, host };
    let trusted = context.readiness.gate("a certificate that the API server trusts");
    let key_maker = KeyMaker::new(&context);
    let bundle = converts.then(|| args.ca_config_map.clone());
    let keeper =
        CertificateKeeper::new(install.clone(), policy, &configured.secret_name, bundle, serving.clone(), trusted);

    let facts = args.facts(&context);
    let (settings, fence) = (context.settings.clone(), context.fence.clone());
    let source = FactSource::new(context.client.clone(), install, settings, fence, facts);
    let looked = context.readiness.gate("what the API server serves");
    let service = Service::new(source.clone(), converts, &clients, RequestMetrics::new(&context.metrics));

    let staying = context.readiness.gate("nothing; the process is about to stop");
    staying.open();
    let stop = async {
        context.shutdown.requested().await;
        staying.close();
    };
    tokio::select! {
        () = serve(listener, acceptor, service, stop, args.idle()) => {}
        () = keeper.run() => {}
        () = clients.follow(&serving, content, acceptors) => {}
        Some(()) = OptionFuture::from(key_maker.map(KeyMaker::run)) => {}
        () = source.follow(|| looked.open()) => {}
    }
    Ok(())
}
