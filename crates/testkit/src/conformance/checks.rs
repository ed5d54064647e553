//! All checks, in the order in which they are played and shown.

use super::Check;

mod balancers;
mod balancers_changed;
mod deletion;
mod errors;
mod existence;
mod existence_in_doubt;
mod gate;
mod instances;
mod interruption;
mod life;
mod ownership;
mod routes;
mod stories;
mod volumes;
mod volumes_attached;

/// Every check of the suite.
pub fn all() -> impl Iterator<Item = &'static Check> {
    [
        life::CHECKS,
        existence::CHECKS,
        existence_in_doubt::CHECKS,
        instances::CHECKS,
        balancers::CHECKS,
        balancers_changed::CHECKS,
        deletion::CHECKS,
        ownership::CHECKS,
        routes::CHECKS,
        volumes::CHECKS,
        volumes_attached::CHECKS,
        gate::CHECKS,
        errors::CHECKS,
        interruption::CHECKS,
        stories::CHECKS,
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_check_has_a_name_of_its_own_and_a_promise_in_one_sentence() {
        let ids: BTreeSet<&str> = all().map(|check| check.id).collect();
        assert_eq!(ids.len(), all().count(), "two checks share a name");
        for check in all() {
            assert!(check.id.contains('_'), "{} is no sentence", check.id);
            assert!(check.promise.ends_with('.') && !check.promise.contains('|'), "{}", check.promise);
        }
    }

    #[test]
    fn the_checks_of_a_group_stand_together() {
        let mut groups: Vec<_> = all().map(|check| check.group).collect();
        groups.dedup();
        let distinct: BTreeSet<_> = groups.iter().collect();
        assert_eq!(distinct.len(), groups.len());
    }
}
