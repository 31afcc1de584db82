//! Errors, each with the object it is about and the remedy.

use std::path::PathBuf;

use crate::{assets::AssetsError, wait::Timeout};

/// An error of the test cluster.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The programs of the control plane could not be found or built.
    #[error(transparent)]
    Assets(#[from] AssetsError),
    /// A file or process operation failed.
    #[error("cannot {action} {path}")]
    Io {
        /// Failed action, as a verb.
        action: &'static str,
        /// The file, directory or program.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// A certificate could not be made.
    #[error("cannot make the certificate {name}")]
    Certificate {
        /// Its file name, without an ending.
        name: String,
        /// Cause.
        source: rcgen::Error,
    },
    /// A kubeconfig could not be read or does not describe a cluster.
    #[error("kubeconfig {path} is not usable")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Reason for the rejection.
        source: kube::config::KubeconfigError,
    },
    /// A request to the API server failed.
    #[error("cannot {action}")]
    Api {
        /// Failed action, with the object's name.
        action: String,
        /// The answer of the API server or of the connection.
        source: Box<kube::Error>,
    },
    /// A request for a token was answered without one.
    #[error("the API server gave no token for ServiceAccount {0}")]
    NoToken(String),
    /// A manifest is not a Kubernetes object.
    #[error("manifest {manifest} has no valid {field}")]
    Manifest {
        /// The beginning of the manifest.
        manifest: String,
        /// The field that is missing or malformed.
        field: &'static str,
    },
    /// A file is not YAML.
    #[error("{path} is not YAML")]
    Yaml {
        /// The file.
        path: PathBuf,
        /// Error with its position.
        source: Box<serde_saphyr::Error>,
    },
    /// A condition did not come true in time.
    #[error(transparent)]
    Timeout(#[from] Timeout),
    /// A program of the cluster ended by itself.
    #[error("{name} ended by itself; the end of its log:\n{log}")]
    Died {
        /// The program's name.
        name: String,
        /// The last lines of its log.
        log: String,
    },
    /// A program name that cannot be a file name.
    #[error("program name {0:?} is not made of lower-case letters, digits and '-' alone")]
    ProgramName(String),
    /// There is no running cluster in the directory.
    #[error("no cluster runs in {0}; start one, or remove what is left of it with `down`")]
    NotRunning(PathBuf),
    /// The audit log is read, but the cluster writes none.
    #[error("this cluster writes no audit log; set `Options::audit` when starting it")]
    NoAuditLog,
    /// No free port was found.
    #[error(
        "no free TCP port on 127.0.0.1; end processes that listen there, or widen the range below ip_local_port_range"
    )]
    NoPort,
    /// A blocking task of this crate was cancelled or panicked.
    #[error("a background task of the test cluster failed")]
    Task(#[from] tokio::task::JoinError),
}

impl Error {
    /// Turns an I/O error into one that names the path; for `map_err`.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    /// Turns an error of a request into one that names the request; for `map_err`.
    pub(crate) fn api(action: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let action = action.into();
        move |source| Self::Api { action, source: Box::new(source) }
    }

    /// Whether a program lost its port to another one between choosing it and listening there: worth another try.
    pub(crate) fn is_lost_port(&self) -> bool {
        matches!(self, Self::Died { log, .. } if log.contains("address already in use"))
    }
}
