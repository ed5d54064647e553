//! The control plane: its builder, and how its daemons are brought up and taken down together.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::access::certificate_kubeconfig;
use crate::assets::{Assets, Environment, Program, Progress, on_stderr};
use crate::daemon::{Daemon, Probe, Spec};
use crate::error::Error;
use crate::pki::{Authority, Pair, write};
use crate::watchdog::Watchdog;
use crate::{audit, flags, ports};

/// How many sets of ports are tried before a clash is reported.
const ATTEMPTS: usize = 5;

/// Who kube-controller-manager is to the API server; its role is among those that every cluster has.
const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";

/// What a control plane should be like.
#[derive(Clone)]
pub struct Builder {
    environment: Environment,
    progress: Progress,
    deadline: Duration,
    audit: bool,
    controller_manager: bool,
    api_server_args: Vec<String>,
    controller_manager_args: Vec<String>,
}

impl Builder {
    /// The release of Kubernetes, such as `1.37` or `1.36.4`; otherwise `NEPHOS_KUBE`, otherwise the pinned one.
    #[must_use]
    pub fn kube(mut self, version: impl Into<String>) -> Self {
        self.environment.kube = Some(version.into());
        self
    }

    /// Whether the API server keeps an audit log, to be read with [`ControlPlane::audit_events`].
    #[must_use]
    pub fn audit(mut self, audit: bool) -> Self {
        self.audit = audit;
        self
    }

    /// Whether kube-controller-manager runs too. Without it nobody makes default service accounts, finishes the
    /// deletion of a namespace, collects garbage, or fills the aggregated roles `view`, `edit` and `admin`.
    #[must_use]
    pub fn controller_manager(mut self, controller_manager: bool) -> Self {
        self.controller_manager = controller_manager;
        self
    }

    /// One more argument for kube-apiserver. The last of several for the same flag wins.
    #[must_use]
    pub fn api_server_arg(mut self, arg: impl Into<String>) -> Self {
        self.api_server_args.push(arg.into());
        self
    }

    /// One more argument for kube-controller-manager. The last of several for the same flag wins.
    #[must_use]
    pub fn controller_manager_arg(mut self, arg: impl Into<String>) -> Self {
        self.controller_manager_args.push(arg.into());
        self
    }

    /// How long each daemon may take to become ready; a minute unless said otherwise.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Where programs come from, instead of what this process's environment says.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Who is told about a build, instead of standard error.
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Starts it and returns when the API server is ready and its first namespaces exist.
    pub async fn start(self) -> Result<ControlPlane, Error> {
        let assets = Assets::obtain(&self.environment, &self.progress).await?;
        let name = format!("nephos-control-plane-{}", uuid::Uuid::new_v4().simple());
        let watchdog = Arc::new(Watchdog::over(std::env::temp_dir().join(name)).await?);
        let authority = Authority::new(&watchdog.directory().join("pki"))?;
        let (serving, tokens) = (authority.server("serving")?, authority.token_signer()?);
        let launch =
            Launch { serving, tokens, builder: self, assets, authority, watchdog: Arc::clone(&watchdog) };
        let (etcd, etcd_port) = launch.etcd().await?;
        let (api_server, port, admin) = launch.api_server(etcd_port).await?;
        let args = &launch.builder.controller_manager_args;
        let controller_manager = if launch.builder.controller_manager {
            Some(launch.controller_manager(port, args).await?)
        } else {
            None
        };
        let audit_log = launch.builder.audit.then(|| launch.file("audit.log"));
        Ok(ControlPlane { controller_manager, api_server, etcd, port, admin, audit_log, launch, watchdog })
    }
}

/// A running control plane. When it is dropped, its daemons end and its directory goes.
pub struct ControlPlane {
    // In the order in which they are to end.
    controller_manager: Option<Daemon>,
    api_server: Daemon,
    etcd: Daemon,
    port: u16,
    admin: PathBuf,
    pub(crate) audit_log: Option<PathBuf>,
    launch: Launch,
    // The last to go, and with it the directory.
    watchdog: Arc<Watchdog>,
}

impl ControlPlane {
    /// What to start.
    pub fn builder() -> Builder {
        Builder {
            environment: Environment::of_process(),
            progress: on_stderr(),
            deadline: Duration::from_secs(60),
            audit: false,
            controller_manager: false,
            api_server_args: Vec::new(),
            controller_manager_args: Vec::new(),
        }
    }

    /// kube-apiserver.
    pub fn api_server(&self) -> &Daemon {
        &self.api_server
    }

    /// etcd.
    pub fn etcd(&self) -> &Daemon {
        &self.etcd
    }

    /// kube-controller-manager, if it was asked for.
    pub fn controller_manager(&self) -> Option<&Daemon> {
        self.controller_manager.as_ref()
    }

    /// One more kube-controller-manager, as another member of the control plane runs it: with these arguments after
    /// those of the first. It ends when it is dropped.
    pub async fn another_controller_manager(&self, args: &[String]) -> Result<Daemon, Error> {
        self.launch.controller_manager(self.port, args).await
    }

    /// The API server's address, such as `https://127.0.0.1:23456`.
    pub fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The API server's port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A kubeconfig file that may do everything (group `system:masters`).
    pub fn admin_kubeconfig(&self) -> &Path {
        &self.admin
    }

    /// The certificate of the authority that signed the API server's.
    pub fn authority_certificate(&self) -> PathBuf {
        self.launch.authority.certificate()
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.launch.authority
    }

    /// Everything the control plane keeps on disk. It is removed with the control plane.
    pub fn directory(&self) -> &Path {
        self.watchdog.directory()
    }

    /// The programs it was started from; kubectl is among them.
    pub fn assets(&self) -> &Assets {
        &self.launch.assets
    }

    /// Ends the daemons and removes the directory, and returns when that is done.
    pub async fn stop(self) -> Result<(), Error> {
        let directory = self.directory().to_owned();
        let attempt = format!("stopping the control plane in {}", directory.display());
        let stopped = tokio::task::spawn_blocking(move || drop(self));
        stopped.await.map_err(|source| Error::Io { attempt: attempt.clone(), source: source.into() })?;
        if directory.exists() {
            let source = std::io::Error::other("its directory could not be removed");
            return Err(Error::Io { attempt, source });
        }
        Ok(())
    }
}

/// What the daemons are started from.
struct Launch {
    builder: Builder,
    assets: Assets,
    authority: Authority,
    watchdog: Arc<Watchdog>,
    serving: Pair,
    tokens: Pair,
}

impl Launch {
    async fn etcd(&self) -> Result<(Daemon, u16), Error> {
        let ([client, _], etcd) = on_free_ports(&self.watchdog, |[client, peer]| {
            let data = self.file(&format!("etcd-{client}"));
            Ok(Spec {
                name: "etcd",
                program: self.assets.program(Program::Etcd)?,
                args: flags::etcd(&data, client, peer),
                probe: Probe::Etcd(client),
                deadline: self.builder.deadline,
            })
        })
        .await?;
        Ok((etcd, client))
    }

    async fn api_server(&self, etcd: u16) -> Result<(Daemon, u16, PathBuf), Error> {
        let audit = (self.file("audit-policy.json"), self.file("audit.log"));
        if self.builder.audit {
            write(&audit.0, &audit::policy().to_string())?;
        }
        let ([port], api_server) = on_free_ports(&self.watchdog, |[port]| {
            let flags = flags::ApiServer {
                etcd,
                port,
                authority: &self.authority.certificate(),
                serving: &self.serving,
                tokens: &self.tokens,
                audit: self.builder.audit.then_some((&audit.0, &audit.1)),
            };
            Ok(Spec {
                name: "kube-apiserver",
                program: self.assets.program(Program::ApiServer)?,
                args: [flags.args(), self.builder.api_server_args.clone()].concat(),
                probe: Probe::ApiServer(self.kubeconfig_in(
                    &self.file("admin"),
                    "admin",
                    port,
                    &["system:masters"],
                )?),
                deadline: self.builder.deadline,
            })
        })
        .await?;
        Ok((api_server, port, self.file("admin.kubeconfig")))
    }

    async fn controller_manager(&self, api: u16, args: &[String]) -> Result<Daemon, Error> {
        let (_, controller_manager) = on_free_ports(&self.watchdog, |[port]| {
            // There may be several, and each has files of its own.
            let own = |what: &str| self.file(&format!("kube-controller-manager-{port}-{what}"));
            let kubeconfig = self.kubeconfig_in(&own("user"), CONTROLLER_MANAGER, api, &[])?;
            let flags = flags::ControllerManager {
                port,
                kubeconfig: &kubeconfig,
                authority: &self.authority.certificate(),
                serving: &self.serving,
                tokens: &self.tokens,
            };
            Ok(Spec {
                name: "kube-controller-manager",
                program: self.assets.program(Program::ControllerManager)?,
                args: [&flags.args(), args].concat(),
                probe: Probe::Healthz(self.kubeconfig_in(&own("probe"), "probe", port, &[])?),
                deadline: self.builder.deadline,
            })
        })
        .await?;
        Ok(controller_manager)
    }

    fn kubeconfig_in(&self, base: &Path, user: &str, port: u16, groups: &[&str]) -> Result<PathBuf, Error> {
        let server = format!("https://127.0.0.1:{port}");
        certificate_kubeconfig(&self.authority, base, &server, user, groups)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.watchdog.directory().join(name)
    }
}

/// Starts a daemon on ports that are free; when somebody takes one of them before the daemon does, on others.
async fn on_free_ports<const N: usize>(
    watchdog: &Arc<Watchdog>,
    spec: impl Fn([u16; N]) -> Result<Spec, Error>,
) -> Result<([u16; N], Daemon), Error> {
    let mut attempt = 1;
    loop {
        let mut free = [0; N];
        for port in &mut free {
            *port = ports::free()?;
        }
        let daemon = Daemon::new(spec(free)?, watchdog);
        match daemon.start().await {
            Err(error) if error.is_port_clash() && attempt < ATTEMPTS => attempt += 1,
            started => return started.map(|()| (free, daemon)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[tokio::test]
    async fn a_daemon_whose_port_was_taken_in_the_meantime_is_started_on_another() {
        let assets = Assets::obtain(&Environment::of_process(), &on_stderr()).await.unwrap();
        let name = format!("nephos-clash-{}", uuid::Uuid::new_v4().simple());
        let watchdog = Arc::new(Watchdog::over(std::env::temp_dir().join(name)).await.unwrap());
        let squatter = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let taken = squatter.local_addr().unwrap().port();
        let attempts = Cell::new(0);
        let (_, etcd) = on_free_ports(&watchdog, |[client, peer]| {
            attempts.set(attempts.get() + 1);
            let client = if attempts.get() == 1 { taken } else { client };
            Ok(Spec {
                name: "etcd",
                program: assets.program(Program::Etcd)?,
                args: flags::etcd(&watchdog.directory().join(format!("data-{client}")), client, peer),
                probe: Probe::Etcd(client),
                deadline: Duration::from_secs(30),
            })
        })
        .await
        .unwrap();
        assert_eq!(attempts.get(), 2);
        assert!(etcd.pid().await.is_some());
    }
}
