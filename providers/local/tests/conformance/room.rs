//! A network namespace for one thread, so that what a test puts into the kernel is nobody else's.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::process::Command;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A namespace, which this thread is in. Nothing of it is left when it is dropped.
pub(crate) struct Room(String);

impl Room {
    /// Enters a new one; `None`, with a notice that nobody can miss, where that is not possible.
    pub(crate) fn enter() -> Option<Self> {
        let name = format!("nph-{}-conformance", std::process::id());
        if let Err(why) = prepare(&name) {
            // Past the test runner, which hides what a passing test prints.
            let _ =
                writeln!(std::io::stderr(), "NOTICE: the data plane nft was NOT held to the suite: {why}");
            return None;
        }
        let namespace = std::fs::File::open(format!("/run/netns/{name}")).unwrap();
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        Some(Self(name))
    }
}

fn prepare(name: &str) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("it needs root".to_owned());
    }
    for program in ["nft", "conntrack"] {
        let found = Command::new(program).arg("--version").output();
        found.map_err(|_| "install the packages nftables and conntrack".to_owned())?;
    }
    let made = Command::new("ip").args(["netns", "add", name]).output().map_err(|error| error.to_string())?;
    if made.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&made.stderr).into_owned()) }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}
