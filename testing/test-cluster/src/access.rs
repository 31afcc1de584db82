//! Access to a cluster: clients and kubeconfigs, for the administrator and for others.

use std::path::{Path, PathBuf};

use k8s_openapi::{
    ByteString,
    api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        core::v1::ServiceAccount,
    },
};
use kube::{
    Client, Config,
    api::{Api, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use crate::{error::Error, home::write_private, manifests, pki::Admin};

/// Tokens outlive every test and every evening of local work.
const TOKEN_SECONDS: i64 = 30 * 24 * 60 * 60;

/// Administrator's access to a cluster.
#[derive(Debug, Clone)]
pub struct Access {
    path: PathBuf,
    kubeconfig: Kubeconfig,
    config: Config,
    makes_service_accounts: bool,
}

impl Access {
    /// Access by a kubeconfig file, to a cluster that is not managed here.
    ///
    /// # Errors
    /// The file cannot be read, or its current context is incomplete.
    pub async fn from_kubeconfig(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        let unusable = |source| Error::Kubeconfig { path: path.clone(), source };
        let kubeconfig = Kubeconfig::read_from(&path).map_err(unusable)?;
        let config = Config::from_custom_kubeconfig(kubeconfig.clone(), &KubeConfigOptions::default()).await;
        let mut config = config.map_err(unusable)?;
        if is_loopback(&config) {
            // A proxy of the environment cannot reach our loopback.
            config.proxy_url = None;
        }
        Ok(Self { path, kubeconfig, config, makes_service_accounts: true })
    }

    /// Whether the API server listens on the loopback of this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        is_loopback(&self.config)
    }

    /// A client with all rights. It works only inside the tokio runtime in which it was made, so each test makes its
    /// own.
    ///
    /// # Errors
    /// The credentials are malformed.
    pub fn client(&self) -> Result<Client, Error> {
        self.client_of("administrator", self.config.clone())
    }

    /// The client with a bearer token.
    ///
    /// # Errors
    /// The CA certificate is malformed.
    pub fn client_for_token(&self, token: &str) -> Result<Client, Error> {
        let mut config = self.config.clone();
        config.auth_info = kube::config::AuthInfo { token: Some(token.to_owned().into()), ..Default::default() };
        self.client_of("token", config)
    }

    /// The address of the API server.
    #[must_use]
    pub fn server(&self) -> String {
        self.config.cluster_url.to_string()
    }

    /// The kubeconfig file with all rights.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.path
    }

    /// Writes a kubeconfig with a bearer token, beside the administrator's and named after it and `user`. Only the
    /// owner may read it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn kubeconfig_for_token(&self, user: &str, token: &str) -> Result<PathBuf, Error> {
        let current = self.kubeconfig.current_context.as_deref();
        let context = self.kubeconfig.contexts.iter().find(|named| Some(named.name.as_str()) == current);
        let cluster_name = context.and_then(|named| Some(named.context.as_ref()?.cluster.as_str()));
        let cluster = self.kubeconfig.clusters.iter().find(|named| Some(named.name.as_str()) == cluster_name);
        let content = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [cluster],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": user, "context": {"cluster": cluster_name, "user": user}}],
            "current-context": user,
        });
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}", user.replace(['/', ':'], "-")));
        let path = self.path.with_file_name(name);
        write_private(&path, format!("{content:#}\n").as_bytes())?;
        Ok(path)
    }

    /// Writes a kubeconfig again, beside it and under another name, for the API server on another port. Only the owner
    /// may read it.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn kubeconfig_of_port(&self, first: &Path, name: &str, port: u16) -> Result<PathBuf, Error> {
        let path = first.with_file_name(name);
        write_kubeconfig_of_port(&path, first, port)?;
        Ok(path)
    }

    /// Asks for a token of a ServiceAccount. It is valid for 30 days.
    ///
    /// # Errors
    /// The ServiceAccount does not exist, or the API server does not answer.
    pub async fn token(&self, namespace: &str, service_account: &str) -> Result<String, Error> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client()?, namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..Default::default() }),
            ..Default::default()
        };
        let answer = accounts.create_token_request(service_account, &PostParams::default(), &request).await;
        let action = format!("get a token of ServiceAccount {namespace}/{service_account}");
        let token = answer.map_err(Error::api(action))?.status.and_then(|status| status.token);
        token.ok_or_else(|| Error::NoToken(format!("{namespace}/{service_account}")))
    }

    /// Applies `rules` (Namespace, ServiceAccount, roles, bindings; in this order) and writes a kubeconfig with a token
    /// of the ServiceAccount. The Namespace and the ServiceAccount are made even if `rules` does not hold them.
    ///
    /// # Errors
    /// A manifest is refused, or the file cannot be written.
    pub async fn service_account_kubeconfig(
        &self,
        namespace: &str,
        name: &str,
        rules: &[Value],
    ) -> Result<PathBuf, Error> {
        let account = [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}),
        ];
        self.apply(&account).await?;
        self.apply(rules).await?;
        let token = self.token(namespace, name).await?;
        self.kubeconfig_for_token(&format!("{namespace}-{name}"), &token)
    }

    /// Applies manifests of any kind in the given order (server-side apply, by force).
    ///
    /// # Errors
    /// A manifest has no `apiVersion`, `kind` or name, its kind is unknown to the API server, or it is refused.
    pub async fn apply(&self, manifests: &[Value]) -> Result<(), Error> {
        manifests::apply(&self.client()?, manifests::FIELD_MANAGER, manifests).await
    }

    /// Applies manifests as a manager of its own. What names no namespace goes into `namespace`.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub async fn apply_as(&self, manager: &str, namespace: &str, manifests: &[Value]) -> Result<(), Error> {
        let mut config = self.config.clone();
        namespace.clone_into(&mut config.default_namespace);
        manifests::apply(&self.client_of("administrator", config)?, manager, manifests).await
    }

    /// Applies CustomResourceDefinitions and waits until the API server serves them.
    ///
    /// # Errors
    /// A manifest is refused, or not established in time.
    pub async fn install_crds(&self, crds: &[Value]) -> Result<(), Error> {
        manifests::install_crds(&self.client()?, crds).await
    }

    pub(crate) fn with_service_accounts(self, makes_service_accounts: bool) -> Self {
        Self { makes_service_accounts, ..self }
    }

    /// Whether every new namespace gets a `default` ServiceAccount.
    pub(crate) fn makes_service_accounts(&self) -> bool {
        self.makes_service_accounts
    }

    fn client_of(&self, user: &str, config: Config) -> Result<Client, Error> {
        let action = format!("make a client of {} for the {user}", self.path.display());
        Client::try_from(config).map_err(Error::api(action))
    }
}

fn is_loopback(config: &Config) -> bool {
    config.cluster_url.host().is_some_and(|host| host == "localhost" || host.starts_with("127."))
}

/// Copies a kubeconfig to another directory; files that it names are still found.
pub(crate) fn copy_kubeconfig(from: &Path, to: &Path) -> Result<(), Error> {
    let unusable = |source| Error::Kubeconfig { path: from.to_owned(), source };
    let content = Kubeconfig::read_from(from).map_err(unusable)?;
    write_private(to, format!("{:#}\n", json!(content)).as_bytes())
}

/// Writes the kubeconfig `first` again, for the API server on another port.
pub(crate) fn write_kubeconfig_of_port(path: &Path, first: &Path, port: u16) -> Result<(), Error> {
    const SERVER: &str = "https://127.0.0.1:";
    let text = std::fs::read_to_string(first).map_err(Error::io("read", first))?;
    let (head, tail) = text.split_once(SERVER).unwrap_or((&text, ""));
    let tail = tail.trim_start_matches(|c: char| c.is_ascii_digit());
    write_private(path, format!("{head}{SERVER}{port}{tail}").as_bytes())
}

/// Writes the administrator's kubeconfig, with everything it needs inside.
pub(crate) fn write_admin_kubeconfig(path: &Path, port: u16, admin: Admin) -> Result<(), Error> {
    let data = |pem: String| json!(ByteString(pem.into_bytes()));
    let cluster = json!({
        "server": format!("https://127.0.0.1:{port}"),
        "certificate-authority-data": data(admin.ca),
    });
    let user = json!({
        "client-certificate-data": data(admin.certificate),
        "client-key-data": data(admin.key),
    });
    let content = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test-cluster", "cluster": cluster}],
        "users": [{"name": "admin", "user": user}],
        "contexts": [{"name": "test-cluster", "context": {"cluster": "test-cluster", "user": "admin"}}],
        "current-context": "test-cluster",
    });
    write_private(path, format!("{content:#}\n").as_bytes())
}
