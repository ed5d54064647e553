//! What befalls a cluster, drawn from a seed, and what is true of its machines meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use cloud_controllers::{node, node_lifecycle};
use controller_kit::random::Randomness;
use k8s_openapi::api::core::v1::Node;
use provider_fake::objects::Machine;
use provider_fake::{Effect, Fault};
use testkit::{Fault as ApiFault, Verb, When};

use crate::stage::{Stage, secs};

/// Nodes that were initialised long ago.
pub(crate) const NODES: usize = 12;
/// Nodes that register in the course of a schedule.
pub(crate) const NEWCOMERS: usize = 6;

/// The hand that deals, and its memory.
pub(crate) struct Fate {
    random: Randomness,
    /// By Node UID, the ID of its machine.
    machines: BTreeMap<String, String>,
    /// When a machine was taken away for good.
    removed: BTreeMap<String, Duration>,
    newcomers: usize,
    crashed_at: Vec<Duration>,
    pub(crate) crashes: usize,
}

/// Starts both controllers.
pub(crate) fn start(stage: &mut Stage) {
    stage.start_node(node::Settings::default());
    stage.start_lifecycle(node_lifecycle::Settings::default());
}

fn machine(id: &str) -> Machine {
    Machine::new(id).with_address("InternalIP", "10.0.0.1")
}

impl Fate {
    pub(crate) fn new(seed: u64, stage: &Stage) -> Self {
        let mut fate = Self {
            random: Randomness::seeded(seed ^ 0xfa7e),
            machines: BTreeMap::new(),
            removed: BTreeMap::new(),
            newcomers: 0,
            crashed_at: Vec::new(),
            crashes: 0,
        };
        for number in 0..NODES {
            let name = format!("n{number}");
            stage.world.add_machine(machine(&name));
            fate.register(stage, &name, false);
        }
        fate
    }

    pub(crate) fn pick<T: Copy>(&self, among: &[T]) -> T {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "small numbers"
        )]
        let index = (self.random.unit() * among.len() as f64) as usize;
        among[index.min(among.len() - 1)]
    }

    /// Whether the machine of a Node had been taken away by then.
    pub(crate) fn was_gone(&self, uid: &str, at: Duration) -> bool {
        self.machines.get(uid).and_then(|id| self.removed.get(id)).is_some_and(|gone| *gone <= at)
    }

    /// Whether the machine of a Node exists.
    pub(crate) fn lives(&self, uid: &str) -> bool {
        self.machines.get(uid).is_some_and(|id| !self.removed.contains_key(id))
    }

    /// When the process next crashed after a moment.
    pub(crate) fn next_crash(&self, after: Duration) -> Duration {
        self.crashed_at.iter().copied().find(|at| *at > after).unwrap_or(Duration::MAX)
    }

    /// Its kubelet registers a Node.
    fn register(&mut self, stage: &Stage, name: &str, new: bool) {
        let bare = testkit::node(name).hostname(name);
        let node = if new {
            bare.uninitialized().not_ready()
        } else {
            bare.provider_id(&format!("fake://{name}")).ready()
        };
        let uid = stage.server.create(&node.build()).metadata.uid.unwrap();
        self.machines.insert(uid, name.to_owned());
    }

    /// One step.
    pub(crate) fn step(&mut self, stage: &mut Stage) {
        let numbers: Vec<usize> = (0..NODES).collect();
        let name = format!("n{}", self.pick(&numbers));
        let exists = stage.node(&name).is_some();
        match self.pick(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]) {
            0 | 1 if exists => kubelet(stage, &name, "Unknown"),
            2 if exists => kubelet(stage, &name, "True"),
            3 => {
                stage.world.remove_machine(&name);
                self.removed.entry(name.clone()).or_insert_with(|| stage.server.elapsed());
                if exists {
                    kubelet(stage, &name, "Unknown");
                }
            }
            4 => self.trouble_the_cloud(stage),
            5 => stage.world.clear_faults(),
            6 if exists => {
                // Deleted and registered again under its name.
                stage.server.delete::<Node>("", &name);
                self.register(stage, &name, false);
                kubelet(stage, &name, "Unknown");
            }
            7 => self.trouble_reads(stage),
            8 => {
                stage.server.faults().break_watches();
            }
            9 => self.trouble_writes(stage),
            10 | 11 if self.newcomers < NEWCOMERS => {
                let name = format!("x{}", self.newcomers);
                self.newcomers += 1;
                // Some machines cannot be seen until the end.
                if self.pick(&[true, true, false]) {
                    stage.world.add_machine(machine(&name));
                }
                self.register(stage, &name, true);
            }
            12 => {
                stage.crash();
                self.crashes += 1;
                self.crashed_at.push(stage.server.elapsed());
                start(stage);
            }
            _ => {}
        }
    }

    fn trouble_the_cloud(&self, stage: &Stage) {
        let effects = [
            Effect::Foreign,
            Effect::Empty,
            Effect::NotFound,
            Effect::Fail,
            Effect::Unauthorized,
            Effect::Throttle,
            Effect::Hang,
            Effect::RepeatPage,
            Effect::Duplicate,
            Effect::Slow,
        ];
        // A page of a list that is another project's, in the middle of ours, is no credential's fault.
        let whole = stage.world.config().page_size > NODES + NEWCOMERS;
        let effect = self.pick(if whole { &effects[..] } else { &effects[2..] });
        let operation = self.pick(&["reads", "list_instances", "get_instance"]);
        let mut fault = Fault::new(operation, effect).times(self.pick(&[1, 2, 5, 50]));
        fault.after =
            matches!(effect, Effect::Throttle | Effect::Slow).then(|| self.pick(&[secs(1), secs(20)]));
        stage.world.inject(fault).unwrap();
    }

    fn trouble_reads(&self, stage: &Stage) {
        let faults = stage.server.faults();
        match self.pick(&[0, 1, 2, 3]) {
            0 => faults.down_for(self.pick(&[secs(2), secs(30), secs(200)])),
            1 => faults.travel_back(self.pick(&[1, 5]), self.pick(&[secs(5), secs(60)])).break_watches(),
            2 => faults.forget_history(),
            _ => faults.always(When::watches().times(2), ApiFault::ExpireWatch(secs(1))),
        };
    }

    fn trouble_writes(&self, stage: &Stage) {
        let fault = match self.pick(&[0, 1, 2, 3, 4]) {
            0 => ApiFault::LostAnswer,
            1 => ApiFault::Delay(secs(3)),
            2 => ApiFault::Conflict,
            3 => ApiFault::InternalError,
            _ => ApiFault::HangAfterApplying,
        };
        let verb = self.pick(&[Verb::Delete, Verb::Patch]);
        let times = self.pick(&[1, 3, 10]);
        stage.server.faults().always(When::verb(verb).kind("Node").times(times), fault);
    }

    /// The faults stop, and every machine is to be seen.
    pub(crate) fn relent(&self, stage: &Stage) {
        stage.world.clear_faults();
        stage.server.faults().clear();
        for number in 0..self.newcomers {
            let name = format!("x{number}");
            if !stage.world.contents().machines.iter().any(|each| each.id == name) {
                stage.world.add_machine(machine(&name));
            }
        }
    }
}

/// What its kubelet, or the silence of it, says of a Node.
pub(crate) fn kubelet(stage: &Stage, name: &str, ready: &str) {
    let wanted = testkit::node(name).condition("Ready", ready, "Told").build().status.unwrap().conditions;
    stage.server.modify("", name, |node: &mut Node| {
        node.status.get_or_insert_default().conditions = wanted;
    });
}

/// Whether a Node of this name was there from the beginning.
pub(crate) fn is_old(name: &str) -> bool {
    name.starts_with('n')
}
