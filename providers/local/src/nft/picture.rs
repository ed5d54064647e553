//! Everything that the kernel is told, balancer by balancer, so that a change of one costs what one costs. Pure.
//!
//! What balancers share is the frame. The rest of the tables is made of parts that have nothing in common, so the way from one
//! picture to another is the way between the parts that differ.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::frame::frame;
use super::listener::Side;
use super::networks::Networks;
use super::plan::plan;
use super::render::render;
use super::ruleset::{Family, Ruleset};
use super::traffic::Traffic;
use super::unmodified;
use super::usable::Choice;
use crate::intent::status::Health;
use crate::intent::{Backend, Balancer, Intent, PortKey, Uid};

/// Everything that a picture is made from.
pub(super) struct Scene<'a> {
    /// What is wanted.
    pub(super) intent: &'a Intent,
    /// What is known of a backend.
    pub(super) health: &'a dyn Fn(&Balancer, PortKey, &Backend) -> Health,
    /// Counts the verdicts: another count is other knowledge of the backends.
    pub(super) verdicts: u64,
    /// The networks at each interface.
    pub(super) networks: &'a Networks,
    /// The addresses that are the balancers' alone.
    pub(super) guarded: &'a BTreeSet<IpAddr>,
}

/// What the kernel is told.
#[derive(Debug, Clone, Default)]
pub(super) struct Picture {
    verdicts: u64,
    frame: Ruleset,
    parts: BTreeMap<Uid, Arc<Part>>,
}

/// One balancer, and all that follows from it.
#[derive(Debug)]
struct Part {
    balancer: Arc<Balancer>,
    choice: Choice,
    tables: Ruleset,
    traffic: Traffic,
}

impl Picture {
    /// The picture of this scene. A part that would be the same is taken over from this one.
    pub(super) fn then(&self, scene: &Scene<'_>) -> Self {
        let parts = scene.intent.balancers.iter();
        let parts = parts.map(|(uid, balancer)| (uid.clone(), self.part(uid, balancer, scene)));
        let parts: BTreeMap<Uid, Arc<Part>> = parts.collect();
        let mut frame_of_all = Ruleset::default();
        if !parts.is_empty() {
            frame_of_all.tables.insert(Family::Inet, frame(scene.networks, scene.guarded));
        }
        for side in [Side::V4, Side::V6] {
            if parts.values().any(|part| part.tables.tables.contains_key(&side.family())) {
                frame_of_all.tables.insert(side.family(), unmodified::frame(side));
            }
        }
        Self { verdicts: scene.verdicts, frame: frame_of_all, parts }
    }

    fn part(&self, uid: &Uid, balancer: &Arc<Balancer>, scene: &Scene<'_>) -> Arc<Part> {
        let before = self.parts.get(uid).filter(|part| part.balancer == *balancer);
        if let Some(before) = before
            && self.verdicts == scene.verdicts
        {
            return Arc::clone(before);
        }
        let choice = Choice::make(balancer, |key, backend| (scene.health)(balancer, key, backend));
        match before {
            Some(before) if before.choice == choice => Arc::clone(before),
            _ => Arc::new(Part {
                tables: render(uid, balancer, &choice),
                traffic: Traffic::of(uid, balancer, &choice),
                balancer: Arc::clone(balancer),
                choice,
            }),
        }
    }

    /// All of the tables.
    pub(super) fn whole(&self) -> Ruleset {
        self.with(self.parts.values())
    }

    /// What `nft` must read to make of this picture the next; empty if nothing is to be done.
    pub(super) fn script(&self, next: &Self) -> String {
        let differ = self.differing(next);
        plan(&self.with(self.some(&differ)), &next.with(next.some(&differ)))
    }

    /// Where connections lead, of those balancers that are otherwise in the other picture: here, and there.
    pub(super) fn traffic(&self, next: &Self) -> (Traffic, Traffic) {
        let differ = self.differing(next);
        let of = |picture: &Self| Traffic::together(picture.some(&differ).map(|part| &part.traffic));
        (of(self), of(next))
    }

    /// Where all connections lead.
    pub(super) fn all_traffic(&self) -> Traffic {
        Traffic::together(self.parts.values().map(|part| &part.traffic))
    }

    /// The balancers that are not the very same in both.
    fn differing(&self, other: &Self) -> BTreeSet<Uid> {
        let same = |uid: &Uid| match (self.parts.get(uid), other.parts.get(uid)) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        self.parts.keys().chain(other.parts.keys()).filter(|uid| !same(uid)).cloned().collect()
    }

    fn some(&self, uids: &BTreeSet<Uid>) -> impl Iterator<Item = &Arc<Part>> {
        uids.iter().filter_map(|uid| self.parts.get(uid))
    }

    fn with<'a>(&self, parts: impl Iterator<Item = &'a Arc<Part>>) -> Ruleset {
        let mut ruleset = self.frame.clone();
        for part in parts {
            ruleset.extend(&part.tables);
        }
        ruleset
    }
}

#[cfg(test)]
mod tests;
