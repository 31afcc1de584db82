//! Place for a program of another project beside a control plane.

use std::{fs, path::PathBuf};

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::{Cluster, Error, Keys, port};

/// Files, ports and certificate of a program.
pub struct Place {
    /// Its files; `tls.crt` and `tls.key` are there.
    pub folder: PathBuf,
    /// Port of its webhooks.
    pub webhook: u16,
    /// Port of its health endpoints.
    pub health: u16,
    /// All rights.
    pub kubeconfig: PathBuf,
    /// The CA of its certificate.
    authority: String,
}

impl Place {
    /// A place of that name in the directory of a cluster.
    ///
    /// # Errors
    /// The files cannot be written, or no port is free.
    pub fn new(cluster: &Cluster, name: &str) -> Result<Self, Error> {
        let (folder, keys) = (cluster.dir().join(name), Keys::new()?);
        fs::create_dir_all(&folder).map_err(Error::io("make", &folder))?;
        for (file, text) in [("tls.crt", keys.server.certificate), ("tls.key", keys.server.key)] {
            let path = folder.join(file);
            fs::write(&path, text).map_err(Error::io("write", &path))?;
        }
        let kubeconfig = cluster.kubeconfig().to_owned();
        Ok(Self { folder, webhook: port::free()?, health: port::free()?, kubeconfig, authority: keys.authority })
    }

    /// Lets the webhooks of a configuration be called here.
    pub fn redirect(&self, configuration: &mut Value) {
        for webhook in configuration["webhooks"].as_array_mut().into_iter().flatten() {
            let client = &mut webhook["clientConfig"];
            let path = client["service"]["path"].as_str().unwrap_or_default();
            let url = format!("https://127.0.0.1:{}{path}", self.webhook);
            *client = json!({ "url": url, "caBundle": ByteString(self.authority.clone().into_bytes()) });
        }
    }
}
