//! A namespace for each test.

use std::{thread, time::Duration};

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::{
    Client, ResourceExt,
    api::{Api, DeleteParams, ObjectMeta, PostParams},
};

use crate::{access::Access, error::Error, wait};

const ACCOUNT_LIMIT: Duration = Duration::from_secs(60);

/// A fresh namespace. Its deletion is requested when this is dropped, and takes place in the background.
pub struct TestNamespace {
    name: String,
    client: Client,
    access: Access,
}

impl TestNamespace {
    /// Makes a namespace whose unique name begins with `prefix`, and waits until Pods are accepted in it.
    ///
    /// # Errors
    /// The API server refuses it, or (on a cluster whose controllers should make it) the `default` ServiceAccount does
    /// not appear.
    pub async fn new(access: &Access, prefix: &str) -> Result<Self, Error> {
        let client = access.client()?;
        let metadata = ObjectMeta { generate_name: Some(format!("{prefix}-")), ..Default::default() };
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let made = namespaces.create(&PostParams::default(), &Namespace { metadata, ..Default::default() }).await;
        let name = made.map_err(Error::api(format!("make a namespace {prefix}-…")))?.name_any();
        let this = Self { name, client, access: access.clone() };
        if access.makes_service_accounts() {
            wait_for_account(&this.client, &this.name).await?;
        }
        Ok(this)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A client with all rights, made in the runtime that made the namespace.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }
}

/// Waits for the `default` ServiceAccount, without which the API server refuses Pods.
pub(crate) async fn wait_for_account(client: &Client, namespace: &str) -> Result<(), Error> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let what = format!("ServiceAccount {namespace}/default");
    wait::until(what, ACCOUNT_LIMIT, async || accounts.get("default").await).await?;
    Ok(())
}

impl Drop for TestNamespace {
    /// The runtime of the test may be about to end, so a thread with a runtime of its own sends the request.
    fn drop(&mut self) {
        let (access, name) = (self.access.clone(), self.name.clone());
        let sent = thread::spawn(move || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let namespaces: Api<Namespace> = Api::all(access.client()?);
                namespaces.delete(&name, &DeleteParams::background()).await?;
                Ok(())
            })
        });
        match sent.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => eprintln!("namespace {} was not deleted: {error}", self.name),
            Err(_) => eprintln!("namespace {} was not deleted: the thread that should do so panicked", self.name),
        }
    }
}
