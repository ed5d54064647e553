//! What to do next for one Service, from what it says and what this process knows. Pure. After each step the question is
//! asked again, until the answer is to rest.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{LoadBalancerStatus, Service};

use super::backends::Backends;
use super::status;
use super::wish::{self, Print, Terms};

/// The next thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Rest,
    /// Make the load balancer what the Service asks for.
    Ensure,
    /// Give the load balancer the nodes of now, and change nothing else.
    UpdateBackends,
    /// Read back what the cloud has and compare.
    Look,
    /// Put back what stands on the Service: the finalizer, the address, or a complaint that is over.
    Mend,
    /// Remove the load balancer and let the Service go.
    CleanUp,
}

impl Step {
    /// Whether somebody waits for it.
    pub fn is_urgent(self) -> bool {
        self == Self::Ensure
    }
}

/// The load balancer as this process last saw or made it.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// What was asked for.
    pub print: Print,
    /// The nodes it was set up with.
    pub backends: Arc<Backends>,
    /// The addresses it answers at; `None` if another controller implements it, whose business they are.
    pub status: Option<LoadBalancerStatus>,
}

/// What this process knows of one Service.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Known {
    /// Something may be in the cloud, because this process tried or saw it.
    pub holds: bool,
    /// The cloud was asked what it has, so there is nothing that nobody knows of.
    pub looked: bool,
    /// It is time to compare again.
    pub look_due: bool,
    /// What the load balancer is, if it is as it should be or was.
    pub applied: Option<Applied>,
    /// What was refused, and is not tried again before it changes.
    pub refused: Option<Print>,
}

/// What to do next.
pub fn next(service: &Service, known: &Known, backends: &Backends, terms: &Terms) -> Step {
    if !wish::wants(service, terms) || wish::is_going(service) {
        return unwanted(service, known);
    }
    let print = Print::of(service, terms);
    let refused = known.refused.as_ref() == Some(&print);
    match &known.applied {
        // A load balancer from before this process: if it is as it should be, nobody needs to touch it.
        None if !known.looked && wish::is_held(service) && wish::has_address(service) => Step::Look,
        None if !refused => Step::Ensure,
        Some(applied) if applied.print != print && !refused => Step::Ensure,
        Some(applied) if !wish::is_held(service) || status::differs(service, applied, !refused) => Step::Mend,
        Some(applied) if *applied.backends != *backends => Step::UpdateBackends,
        Some(applied) if known.look_due && applied.status.is_some() => Step::Look,
        None | Some(_) => Step::Rest,
    }
}

/// For a Service that wants no load balancer from us, or none any more.
fn unwanted(service: &Service, known: &Known) -> Step {
    let foreign = wish::is_load_balancer(service) && !wish::is_going(service);
    if known.holds {
        return Step::CleanUp;
    }
    match (wish::is_held(service), foreign) {
        (false, _) => Step::Rest,
        (true, false) => Step::CleanUp,
        // The finalizer of a Service of another's class may be that other's. What we made ourselves goes all the same.
        (true, true) if known.looked => Step::Rest,
        (true, true) => Step::Look,
    }
}
