//! A control plane of one's own.

use std::{
    ops::Deref,
    path::{Path, PathBuf},
    time::Duration,
};

use kube::Client;
use tokio::task::spawn_blocking;

use crate::{
    access::{self, Access},
    assets::{Assets, AssetsError, Tool},
    components::{self, APISERVER, CONTROLLER_MANAGER, ETCD, KWOK, SCHEDULER},
    error::Error,
    held::{self, HeldServer},
    home,
    namespace::wait_for_account,
    nodes,
    options::Options,
    pki, port,
    process::Process,
    supervisor::{Program, Signal, Supervisor},
    wait,
};

/// Time limit for the API server to become ready, on a busy machine.
const READY_LIMIT: Duration = Duration::from_secs(120);
const PORT_TRIES: usize = 5;

/// A running control plane. It ends, and leaves nothing behind, when this is dropped and when the process that started
/// it ends in whatever way, unless it was [detached](Cluster::detach).
#[derive(Debug)]
pub struct Cluster {
    supervisor: Supervisor,
    access: Access,
}

impl Deref for Cluster {
    type Target = Access;

    fn deref(&self) -> &Access {
        &self.access
    }
}

impl Cluster {
    /// Builds what [`Cluster::start`] would have to build. Blocks for minutes on a machine where nothing is built yet.
    ///
    /// # Errors
    /// A program cannot be built.
    pub fn build(options: &Options) -> Result<(), AssetsError> {
        Programs::find(options).map(drop)
    }

    /// Starts a control plane and returns when it is usable: the API server is ready, the CRDs are served, Pods are
    /// accepted in the namespace `default`, and the fake nodes are Ready. The first start on a machine builds the
    /// programs.
    ///
    /// # Errors
    /// A program cannot be built or ends early, or the control plane is not ready in time. Nothing is left behind.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let options = Options { audit: options.audit || home::audit_dir().is_some(), ..options };
        let desired = options.clone();
        let programs = spawn_blocking(move || Programs::find(&desired)).await??;
        let mut tries = 1;
        loop {
            match Self::start_once(&options, &programs).await {
                Err(error) if error.is_lost_port() && tries < PORT_TRIES => tries += 1,
                outcome => return outcome,
            }
        }
    }

    async fn start_once(options: &Options, programs: &Programs) -> Result<Self, Error> {
        let supervisor = Supervisor::start(home::fresh()).await?;
        supervisor.run(&components::etcd(programs.etcd.clone())).await?;
        let dir = supervisor.dir();
        let port = port::free()?;
        let kubeconfig = dir.join(components::KUBECONFIG);
        access::write_admin_kubeconfig(&kubeconfig, port, pki::write(&dir.join(components::PKI_DIR))?)?;
        let policy = components::audit_policy().to_string();
        home::write_private(&dir.join(components::AUDIT_POLICY), policy.as_bytes())?;
        if let Some(kept) = home::audit_dir() {
            home::keep_file(&dir.join(components::AUDIT_LOG), &kept)?;
        }
        supervisor.run(&components::apiserver(programs.apiserver.clone(), port, options)).await?;
        let access = Access::from_kubeconfig(kubeconfig).await?;
        let access = access.with_service_accounts(options.controllers.make_service_accounts());
        let this = Self { supervisor, access };
        this.unless_dead(&[ETCD, APISERVER], this.ready()).await?;
        this.start_rest(options, programs).await?;
        Ok(this)
    }

    /// Starts what needs an API server. CRDs come before the controller manager, for its garbage collector.
    async fn start_rest(&self, options: &Options, programs: &Programs) -> Result<(), Error> {
        let mut started = vec![ETCD, APISERVER];
        if let Some(scheduler) = &programs.scheduler {
            self.supervisor.run(&components::scheduler(scheduler.clone())).await?;
            started.push(SCHEDULER);
        }
        if let Some(kwok) = &programs.kwok {
            self.supervisor.run(&components::kwok(kwok.clone(), &Assets::kwok_stages(kwok))).await?;
            started.push(KWOK);
        }
        self.install_crds(&options.crds).await?;
        if let Some(executable) = &programs.controller_manager {
            self.supervisor
                .run(&components::controller_manager(executable.clone(), &options.controllers.names()))
                .await?;
            started.push(CONTROLLER_MANAGER);
        }
        let client = self.client()?;
        let usable = async {
            nodes::make(&client, options.kwok_nodes).await?;
            if options.controllers.make_service_accounts() {
                wait_for_account(&client, "default").await?;
            }
            nodes::wait_ready(&client, options.kwok_nodes).await
        };
        self.unless_dead(&started, usable).await
    }

    /// Programs beside a cluster that runs already, by its kubeconfig: they end with this, the cluster does not.
    ///
    /// # Errors
    /// The kubeconfig cannot be read or copied.
    pub async fn beside(kubeconfig: &Path) -> Result<Self, Error> {
        let supervisor = Supervisor::start(home::fresh()).await?;
        // Kubeconfigs of accounts are written beside it, and nothing is written beside the user's.
        let copy = supervisor.dir().join(components::KUBECONFIG);
        access::copy_kubeconfig(kubeconfig, &copy)?;
        let access = Access::from_kubeconfig(copy).await?;
        Ok(Self { supervisor, access })
    }

    /// The cluster that was [detached](Cluster::detach) in `dir`.
    ///
    /// # Errors
    /// No detached cluster runs there.
    pub async fn attach(dir: &Path) -> Result<Self, Error> {
        let supervisor = Supervisor::attach(dir)?;
        let access = Access::from_kubeconfig(dir.join(components::KUBECONFIG)).await?;
        Ok(Self { supervisor, access })
    }

    /// Makes the cluster outlive this process. It ends by [`Cluster::down`] with the directory that is returned.
    ///
    /// # Errors
    /// The supervisor of the cluster is gone.
    pub async fn detach(self) -> Result<PathBuf, Error> {
        self.supervisor.detach().await?;
        Ok(self.supervisor.dir().to_owned())
    }

    /// Ends the cluster and returns when it is gone.
    ///
    /// # Errors
    /// The supervisor of the cluster cannot be reached.
    pub async fn stop(self) -> Result<(), Error> {
        self.supervisor.end().await
    }

    /// Ends the cluster in `dir` and removes what is left of it, also when its supervisor is gone. Does nothing where
    /// there is none.
    ///
    /// # Errors
    /// The directory cannot be removed.
    pub async fn down(dir: &Path) -> Result<(), Error> {
        match Supervisor::attach(dir) {
            Ok(supervisor) => supervisor.end().await,
            Err(_) => Supervisor::clean(dir),
        }
    }

    /// The directory of the cluster: kubeconfigs, logs, data.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.supervisor.dir()
    }

    /// The audit log: one JSON event per line. It goes with the cluster, unless [`AUDIT_DIR_ENV`](crate::AUDIT_DIR_ENV)
    /// names a directory that keeps it.
    ///
    /// # Errors
    /// The cluster was started without one.
    pub fn audit_log(&self) -> Result<PathBuf, Error> {
        let path = self.dir().join(components::AUDIT_LOG);
        if path.exists() { Ok(path) } else { Err(Error::NoAuditLog) }
    }

    /// Ends the API server at once, as if its machine had lost power. The data stay.
    ///
    /// # Errors
    /// The supervisor of the cluster is gone.
    pub async fn stop_apiserver(&self) -> Result<(), Error> {
        self.supervisor.stop(APISERVER, Signal::Kill).await
    }

    /// Starts the API server again, on the same port and the same data, and returns when it is ready.
    ///
    /// # Errors
    /// It does not become ready.
    pub async fn start_apiserver(&self) -> Result<(), Error> {
        self.supervisor.run_again(APISERVER).await?;
        self.unless_dead(&[ETCD, APISERVER], self.ready()).await
    }

    /// Starts a second API server on the same etcd and returns when it is ready. Its watch cache can be held back.
    ///
    /// # Errors
    /// It cannot be built, or does not become ready.
    pub async fn held_apiserver(&self) -> Result<HeldServer, Error> {
        let executable = spawn_blocking(|| Assets::from_env()?.find(Tool::ApiServer)).await??;
        let (port, kubeconfig) = (port::free()?, self.dir().join(components::SECOND_KUBECONFIG));
        access::write_kubeconfig_of_port(&kubeconfig, &self.dir().join(components::KUBECONFIG), port)?;
        let server = HeldServer::relay(self.dir(), components::ETCD_SOCKET, kubeconfig.clone())
            .map_err(Error::io("listen in", self.dir()))?;
        let program = components::second_apiserver(executable, port, held::SOCKET);
        self.supervisor.run(&program).await?;
        let client = Access::from_kubeconfig(kubeconfig).await?.client()?;
        let ready = async {
            wait::until("the second API server to be ready", READY_LIMIT, async || readyz(&client).await).await?;
            Ok(())
        };
        self.unless_dead(&[components::SECOND_APISERVER], ready).await?;
        Ok(server)
    }

    /// Runs a further program, such as a controller, for as long as the cluster lives.
    ///
    /// # Errors
    /// Its name is not legal, or it ended at once.
    pub async fn run(&self, program: &Program) -> Result<Process, Error> {
        self.supervisor.run(program).await
    }

    /// Ends a program of this cluster by its name, and returns when it is gone.
    ///
    /// # Errors
    /// It does not end.
    pub async fn stop_program(&self, name: &str, signal: Signal) -> Result<(), Error> {
        self.supervisor.stop(name, signal).await
    }

    /// The process of a program of this cluster, such as `kube-apiserver`, if it runs.
    #[must_use]
    pub fn process(&self, name: &str) -> Option<Process> {
        self.supervisor.process(name)
    }

    /// The log of a program of this cluster.
    #[must_use]
    pub fn log(&self, name: &str) -> PathBuf {
        self.supervisor.log(name)
    }

    async fn ready(&self) -> Result<(), Error> {
        let client = self.client()?;
        wait::until("the API server to be ready", READY_LIMIT, async || readyz(&client).await).await?;
        Ok(())
    }

    /// Runs `work` to its end, unless a program that it depends on ends before.
    async fn unless_dead<T>(&self, names: &[&str], work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        tokio::select! {
            outcome = work => outcome,
            death = self.supervisor.first_death(names) => Err(death),
        }
    }
}

/// The programs that a cluster with certain options needs.
struct Programs {
    etcd: PathBuf,
    apiserver: PathBuf,
    controller_manager: Option<PathBuf>,
    scheduler: Option<PathBuf>,
    kwok: Option<PathBuf>,
}

impl Programs {
    fn find(options: &Options) -> Result<Self, AssetsError> {
        let assets = Assets::from_env()?;
        let if_desired = |desired: bool, tool| desired.then(|| assets.find(tool)).transpose();
        Ok(Self {
            etcd: assets.find(Tool::Etcd)?,
            apiserver: assets.find(Tool::ApiServer)?,
            controller_manager: if_desired(!options.controllers.names().is_empty(), Tool::ControllerManager)?,
            scheduler: if_desired(options.scheduler, Tool::Scheduler)?,
            kwok: if_desired(options.kwok_nodes > 0, Tool::Kwok)?,
        })
    }
}

async fn readyz(client: &Client) -> Result<(), String> {
    let request = http::Request::get("/readyz").body(vec![]).map_err(|error| error.to_string())?;
    let answer = client.request_text(request).await.map_err(|error| error.to_string())?;
    if answer == "ok" { Ok(()) } else { Err(answer) }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;
    use crate::options::Controllers;

    #[tokio::test]
    async fn a_port_lost_to_another_process_is_recognised() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let taken = format!("--secure-port={}", listener.local_addr().unwrap().port());
        let options = Options { controllers: Controllers::Off, apiserver_args: vec![taken], ..Options::default() };
        let expected = options.clone();
        let programs = spawn_blocking(move || Programs::find(&expected)).await.unwrap().unwrap();
        let error = Cluster::start_once(&options, &programs).await.unwrap_err();
        assert!(error.is_lost_port(), "{error}");
    }
}
