//! The Service by which the API server finds the server.

/// The names of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The Service by which the API server finds the server.
    pub service: String,
    /// Its namespace, which is also that of the Secret.
    pub namespace: String,
    /// The cluster's DNS domain.
    pub domain: String,
}

impl Host {
    /// The name that the API server asks for.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.{}.svc", self.service, self.namespace)
    }

    /// All names of the Service, the most important one first.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let Self { service, namespace, domain } = self;
        vec![
            self.name(),
            service.clone(),
            format!("{service}.{namespace}"),
            format!("{service}.{namespace}.svc.{domain}"),
        ]
    }
}
