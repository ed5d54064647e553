//! The rules as data: what each room may import, and what nobody may reach. CONTRIBUTING.md draws the same
//! map for people.

use super::{Graph, Place};

/// A set of packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// The package of this name.
    Named(&'static str),
    /// Every package below `providers/`.
    AnyProvider,
    /// Every package of this workspace.
    Anybody,
}

impl Who {
    pub(super) fn is(self, name: &str, graph: &Graph) -> bool {
        match self {
            Self::Named(expected) => expected == name,
            Self::AnyProvider => graph.ours.get(name) == Some(&Place::Provider),
            Self::Anybody => true,
        }
    }

    fn describe(self) -> String {
        match self {
            Self::Named(name) => format!("`{name}`"),
            Self::AnyProvider => "providers".to_owned(),
            Self::Anybody => "everything".to_owned(),
        }
    }
}

/// What a room may import of ours. Packages from registries are not listed; [`CLOSURE_BANS`] is about those.
#[derive(Debug)]
pub(super) struct Room {
    name: &'static str,
    pub(super) imports: &'static [Who],
    /// What its tests may import besides.
    pub(super) tests_import: &'static [Who],
    pub(super) why: &'static str,
}

impl Room {
    pub(super) fn describe_imports(&self) -> String {
        let list = |whos: &[Who]| match whos {
            [] => "nothing of ours".to_owned(),
            whos => whos.iter().map(|who| who.describe()).collect::<Vec<_>>().join(", "),
        };
        match self.tests_import {
            [] => format!("it may import {}", list(self.imports)),
            tests => format!("it may import {}; its tests also {}", list(self.imports), list(tests)),
        }
    }
}

const TEST_TOOLS: &[Who] = &[Who::Named("testkit"), Who::Named("control-plane")];
const TEST_TOOLS_AND_FAKE: &[Who] =
    &[Who::Named("testkit"), Who::Named("control-plane"), Who::Named("provider-fake")];

/// Each package outside `providers/`.
const ROOMS: &[Room] = &[
    Room {
        name: "cloud-provider",
        imports: &[],
        tests_import: TEST_TOOLS,
        why: "the contract is all that a provider author reads, so it stands on nothing of ours",
    },
    Room {
        name: "cloud-http",
        imports: &[Who::Named("cloud-provider")],
        tests_import: TEST_TOOLS,
        why: "the HTTP client serves providers and knows only their contract",
    },
    Room {
        name: "controller-kit",
        imports: &[],
        tests_import: TEST_TOOLS,
        why: "the kit knows Kubernetes and no cloud",
    },
    Room {
        name: "cloud-controllers",
        imports: &[Who::Named("cloud-provider"), Who::Named("controller-kit")],
        tests_import: TEST_TOOLS_AND_FAKE,
        why: "the controllers act through the contract, by means of the kit",
    },
    Room {
        name: "cloud-controller-manager",
        imports: &[
            Who::Named("cloud-provider"),
            Who::Named("controller-kit"),
            Who::Named("cloud-controllers"),
        ],
        tests_import: TEST_TOOLS_AND_FAKE,
        why: "the manager is handed its provider and knows none",
    },
    Room {
        name: "nephos",
        imports: &[Who::Named("cloud-provider"), Who::Named("cloud-controller-manager"), Who::AnyProvider],
        tests_import: TEST_TOOLS,
        why: "the all-in-one binary lists the providers and does nothing else",
    },
    Room {
        name: "testkit",
        imports: &[Who::Named("cloud-provider"), Who::Named("provider-fake")],
        tests_import: &[Who::Named("control-plane")],
        why: "the test kit stands beside the rooms it tests and sees the contract and the fake cloud",
    },
    Room {
        name: "control-plane",
        imports: &[],
        tests_import: &[],
        why: "starting a real API server needs nothing of ours",
    },
    Room {
        name: "demo",
        imports: &[Who::Anybody],
        tests_import: &[],
        why: "the demonstration shows all of it at work",
    },
    Room {
        name: "xtask",
        imports: &[Who::Named("cloud-controller-manager")],
        tests_import: &[],
        why: "the chores judge the rooms from outside, and print the tables of the manager",
    },
];

const PROVIDER: Room = Room {
    name: "a provider",
    imports: &[
        Who::Named("cloud-provider"),
        Who::Named("cloud-http"),
        Who::Named("cloud-controller-manager"),
    ],
    tests_import: TEST_TOOLS,
    why: "a provider knows the contract and its HTTP client, the manager in its own main.rs, and no other provider",
};

/// The rule for one package of this workspace, if there is one.
pub(super) fn of(name: &str, graph: &Graph) -> Option<&'static Room> {
    if graph.ours.get(name) == Some(&Place::Provider) {
        return Some(&PROVIDER);
    }
    ROOMS.iter().find(|room| room.name == name)
}

/// Packages that somebody must not reach, however long the chain.
#[derive(Debug)]
pub(super) struct ClosureBan {
    pub(super) whose: Who,
    pub(super) crates: &'static [&'static str],
    /// Chains through these are permitted.
    pub(super) except: &'static [&'static str],
    pub(super) why: &'static str,
    pub(super) remedy: &'static str,
}

pub(super) const CLOSURE_BANS: &[ClosureBan] = &[
    ClosureBan {
        whose: Who::Named("cloud-provider"),
        crates: &["kube", "kube-client", "kube-core", "kube-runtime", "tokio", "hyper"],
        except: &[],
        why: "the contract brings neither a Kubernetes client nor a runtime nor an HTTP stack",
        remedy: "define a small trait in the contract and let the room that owns the library implement it",
    },
    ClosureBan {
        whose: Who::Anybody,
        crates: &["aws-lc-rs", "aws-lc-sys", "openssl-sys", "native-tls"],
        // The vendor's SDK brings its own TLS; nobody else may.
        except: &["provider-aws"],
        why: "`ring` under rustls is the only cryptography in the binaries",
        remedy: "switch the default features of the package before it off and choose its rustls and ring features",
    },
];

/// Binaries that may choose a Kubernetes version of `k8s-openapi` for themselves.
pub(super) const KUBERNETES_CHOOSERS: &[&str] = &["demo", "nephos"];
