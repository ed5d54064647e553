//! The command lines of the daemons.

use std::path::Path;

use crate::pki::Pair;

/// Both families, so that Services may be of either.
const SERVICE_RANGES: &str = "10.96.0.0/16,fd96::/112";

/// etcd with one member that never waits for the disk: its data need not outlive the machine.
pub(crate) fn etcd(data: &Path, client: u16, peer: u16) -> Vec<String> {
    let clients = format!("http://127.0.0.1:{client}");
    let peers = format!("http://127.0.0.1:{peer}");
    vec![
        format!("--data-dir={}", data.display()),
        format!("--listen-client-urls={clients}"),
        format!("--advertise-client-urls={clients}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=default={peers}"),
        "--unsafe-no-fsync".to_owned(),
        // A lone member elects itself after this time.
        "--heartbeat-interval=20".to_owned(),
        "--election-timeout=200".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

/// What the API server needs to know.
pub(crate) struct ApiServer<'a> {
    pub(crate) etcd: u16,
    pub(crate) port: u16,
    pub(crate) authority: &'a Path,
    pub(crate) serving: &'a Pair,
    pub(crate) tokens: &'a Pair,
    /// The policy and the log, if one is kept.
    pub(crate) audit: Option<(&'a Path, &'a Path)>,
}

impl ApiServer<'_> {
    /// kube-apiserver on loopback, with the admission plugins and the authorization of a production cluster.
    pub(crate) fn args(&self) -> Vec<String> {
        let mut args = vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.port),
            // Loopback may not be an endpoint of the Service `kubernetes`, so nobody reconciles its endpoints.
            "--advertise-address=127.0.0.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--tls-cert-file={}", self.serving.certificate.display()),
            format!("--tls-private-key-file={}", self.serving.key.display()),
            format!("--client-ca-file={}", self.authority.display()),
            format!("--service-account-key-file={}", self.tokens.certificate.display()),
            format!("--service-account-signing-key-file={}", self.tokens.key.display()),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--allow-privileged=true".to_owned(),
            format!("--service-cluster-ip-range={SERVICE_RANGES}"),
        ];
        if let Some((policy, log)) = self.audit {
            args.push(format!("--audit-policy-file={}", policy.display()));
            args.push(format!("--audit-log-path={}", log.display()));
            // In megabytes; a log that is never turned over is read in one piece.
            args.push("--audit-log-maxsize=100000".to_owned());
        }
        args
    }
}

/// What kube-controller-manager needs to know.
pub(crate) struct ControllerManager<'a> {
    pub(crate) port: u16,
    pub(crate) kubeconfig: &'a Path,
    pub(crate) authority: &'a Path,
    pub(crate) serving: &'a Pair,
    pub(crate) tokens: &'a Pair,
}

impl ControllerManager<'_> {
    /// kube-controller-manager for a cluster whose cloud has a controller manager of its own. Pod networks are left to
    /// whoever is under test.
    pub(crate) fn args(&self) -> Vec<String> {
        let kubeconfig = self.kubeconfig.display();
        vec![
            format!("--kubeconfig={kubeconfig}"),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.port),
            format!("--tls-cert-file={}", self.serving.certificate.display()),
            format!("--tls-private-key-file={}", self.serving.key.display()),
            format!("--root-ca-file={}", self.authority.display()),
            format!("--service-account-private-key-file={}", self.tokens.key.display()),
            "--use-service-account-credentials=true".to_owned(),
            format!("--service-cluster-ip-range={SERVICE_RANGES}"),
            "--allocate-node-cidrs=false".to_owned(),
            // There is only one, and it should work from its first moment.
            "--leader-elect=false".to_owned(),
        ]
    }
}
