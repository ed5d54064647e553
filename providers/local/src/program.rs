//! The programs `nft` and `conntrack`, which speak to the kernel for us.

use std::ffi::OsStr;
use std::io;
use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// Why a program did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It cannot be started.
    #[error("starting {program}: is the package {package} installed?")]
    Missing {
        /// The program.
        program: &'static str,
        /// The package that has it.
        package: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It was started, and could not be spoken to.
    #[error("speaking to {program}")]
    Broken {
        /// The program.
        program: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It refused.
    #[error("{program} refuses: {why}")]
    Refused {
        /// The program.
        program: &'static str,
        /// Its own words.
        why: String,
    },
    /// It said something that is not understood.
    #[error("understanding {program}")]
    Unintelligible {
        /// The program.
        program: &'static str,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

/// A program and the Debian package that has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    package: &'static str,
}

/// Reads and writes tables.
pub(crate) const NFT: Program = Program { name: "nft", package: "nftables" };
/// Reads and removes connections.
pub(crate) const CONNTRACK: Program = Program { name: "conntrack", package: "conntrack" };

/// The most that is told of why a program refused.
const LONGEST_REASON: usize = 600;

impl Program {
    /// Runs it, and tells what it wrote.
    pub(crate) async fn run<S: AsRef<OsStr>>(
        self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<Vec<u8>, ProgramError> {
        self.feed(arguments, "", |_| {}).await
    }

    /// Runs it with this input, says the number of its process as soon as it has one, and tells what it wrote.
    pub(crate) async fn feed<S: AsRef<OsStr>>(
        self,
        arguments: impl IntoIterator<Item = S>,
        input: &str,
        started: impl FnOnce(u32),
    ) -> Result<Vec<u8>, ProgramError> {
        let program = self.name;
        let broken = |source| ProgramError::Broken { program, source };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(false)
            .spawn()
            .map_err(|source| ProgramError::Missing { program, package: self.package, source })?;
        if let Some(number) = child.id() {
            started(number);
        }
        let stdin = child.stdin.take();
        let feed = async {
            if let Some(mut stdin) = stdin
                && !input.is_empty()
            {
                stdin.write_all(input.as_bytes()).await?;
            }
            Ok::<_, io::Error>(())
        };
        let (written, output) = tokio::join!(feed, child.wait_with_output());
        let output = output.map_err(broken)?;
        if output.status.success() {
            written.map_err(broken)?;
            return Ok(output.stdout);
        }
        let why: String = String::from_utf8_lossy(&output.stderr).chars().take(LONGEST_REASON).collect();
        Err(ProgramError::Refused { program, why: why.trim().to_owned() })
    }
}
