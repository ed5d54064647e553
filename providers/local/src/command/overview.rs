//! What a proxy does, as a few lines for a person.

use std::fmt::Write as _;

use crate::intent::status::{BackendStatus, Health};
use crate::intent::{Balancer, Intent, Status};

/// Every balancer with its addresses, ports and backends.
pub(super) fn of(intent: &Intent, status: &Status) -> String {
    let mut text = format!("revision {}, {} balancers\n", intent.revision, intent.balancers.len());
    for (uid, balancer) in &intent.balancers {
        describe(&mut text, uid, balancer, status);
    }
    text
}

fn describe(text: &mut String, uid: &str, balancer: &Balancer, status: &Status) {
    let known = status.balancers.get(uid);
    // Writing to a String cannot fail.
    let _ = writeln!(text, "\n{}", balancer.full_name());
    for listener in balancer.listeners() {
        let failure = known
            .and_then(|known| known.listeners.iter().find(|each| each.listener == listener))
            .and_then(|each| each.failure.as_deref());
        let _ = match failure {
            None => writeln!(text, "  {listener}"),
            Some(why) => writeln!(text, "  {listener}  NOT OPEN: {why}"),
        };
        let backends = known.into_iter().flat_map(|known| &known.backends);
        for backend in backends.filter(|each| each.port == listener.key()) {
            let _ = writeln!(text, "    {}", line(backend));
        }
    }
    for problem in known.into_iter().flat_map(|known| &known.problems) {
        let _ = writeln!(text, "  {problem}");
    }
}

fn line(status: &BackendStatus) -> String {
    let health = match &status.health {
        Health::Unchecked => "unchecked".to_owned(),
        Health::Unknown => "not asked yet".to_owned(),
        Health::Healthy => "healthy".to_owned(),
        Health::Unhealthy { why } => format!("unhealthy: {why}"),
    };
    let draining = if status.draining { ", draining" } else { "" };
    let connections = status.connections.map(|count| format!(", {count} connections")).unwrap_or_default();
    format!("{}  {health}{draining}{connections}", status.backend)
}
