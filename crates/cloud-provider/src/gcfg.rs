//! `cloud.conf` in git-config syntax, which the config files of most clouds are written in. The files that exist were
//! written for Go's `gcfg`; what it accepts is accepted here, with the same values.
//!
//! ```text
//! [Global]
//! auth-url = https://keystone.example:5000/v3   ; a comment, here or on a line of its own
//! password = "pass # word"                      # quotes keep what would end the value
//! tls-insecure                                  # a key alone is true
//!
//! [Networking]
//! public-network-name = north                   # a key given again makes a list,
//! public-network-name = south                   # or the last one counts, as the field asks
//!
//! [LoadBalancerClass "internal"]                # subsections are case-sensitive; sections and keys are not
//! subnet-id = 5bc1…
//! ```
//!
//! # Reading a config
//!
//! A provider derives [`serde::Deserialize`] for its structs: one field per section, a map for a section with
//! subsections, one field per key. The case of a name is free, and so is writing it as one word: the field `auth_url`
//! is `auth-url`, `Auth-Url` or `AuthURL` in the file. [`read`] then returns the struct and what was odd on the way:
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use cloud_provider::gcfg::{self, GoDuration};
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, Default)]
//! #[serde(default)]
//! struct Config {
//!     global: Global,
//!     networking: Networking,
//!     #[serde(rename = "LoadBalancerClass")]
//!     classes: BTreeMap<String, Class>,
//! }
//!
//! #[derive(Deserialize, Default)]
//! #[serde(default)]
//! struct Global {
//!     auth_url: String,
//!     tls_insecure: bool,
//!     request_timeout: Option<GoDuration>,
//! }
//!
//! #[derive(Deserialize, Default)]
//! #[serde(default)]
//! struct Networking {
//!     public_network_name: Vec<String>,
//! }
//!
//! #[derive(Deserialize)]
//! struct Class {
//!     subnet_id: String,
//! }
//!
//! let file = br#"
//! [Global]
//! Auth-URL = "https://keystone.example:5000/v3"
//! tls-insecure
//! request-timout = 30s
//!
//! [Networking]
//! public-network-name = north
//! public-network-name = south
//!
//! [LoadBalancerClass "internal"]
//! subnet-id = 5bc1
//! "#;
//!
//! let loaded = gcfg::read::<Config>("cloud.conf", file)?;
//! assert_eq!(loaded.config.global.auth_url, "https://keystone.example:5000/v3");
//! assert!(loaded.config.global.tls_insecure);
//! assert_eq!(loaded.config.networking.public_network_name, ["north", "south"]);
//! assert_eq!(loaded.config.classes["internal"].subnet_id, "5bc1");
//!
//! // The timeout was misspelt. Go's reader would ignore it in silence; here it is at least said.
//! assert_eq!(loaded.config.global.request_timeout, None);
//! assert_eq!(
//!     loaded.warnings[0].to_string(),
//!     "cloud.conf:5: [Global] request-timout: unknown key, ignored; did you mean \"request-timeout\"?",
//! );
//! # Ok::<(), gcfg::Errors>(())
//! ```
//!
//! # When the file is wrong
//!
//! What cannot be parsed or converted is an error, and [`Errors`] has all of them, with file, line, key and what was
//! expected. The value is shown only under a key that does not look like a secret's.
//!
//! ```
//! # use cloud_provider::gcfg;
//! # #[derive(serde::Deserialize, Debug)]
//! # struct Config { #[serde(rename = "global")] _global: Global }
//! # #[derive(serde::Deserialize, Debug)]
//! # struct Global { #[serde(rename = "tls-insecure")] _tls_insecure: bool, #[serde(rename = "port")] _port: u16 }
//! let errors = gcfg::read::<Config>("cloud.conf", b"[Global]\ntls-insecure = maybe\nport = 99999\n").unwrap_err();
//! let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
//! assert_eq!(lines, [
//!     r#"cloud.conf:2: [Global] tls-insecure: expected true, yes, on, 1, false, no, off or 0, found "maybe""#,
//!     r#"cloud.conf:3: [Global] port: expected a whole number from 0 to 65535, found "99999""#,
//! ]);
//! ```
//!
//! # What a field may be
//!
//! | field | in the file |
//! |---|---|
//! | `String`, or any type that reads itself from a string | `key = text`; `key =` is the empty text; a key alone is an error |
//! | `bool` | `true`, `yes`, `on`, `1`, `false`, `no`, `off`, `0`, or the key alone |
//! | integers | decimal or `0x` hexadecimal; `010` is ten, unless read with [`any_base`] |
//! | floats | `0.5`, `1e3` |
//! | [`GoDuration`] | `30s`, `1h15m` |
//! | enum of names | a name, spelt as freely as a key |
//! | `Vec<T>` | the key once per value; the key alone empties the list |
//! | `Option<T>` | as `T`, or no such key |
//!
//! Go leaves what is not given at its zero value; put `#[serde(default)]` on a struct for the same. A field without
//! default is required. A section `[default-x]`, if the struct has a field for it, holds what every subsection of `x`
//! starts from. `#[serde(flatten)]` is not supported: it hides the types of the fields.
//!
//! # Where this is not Go's reader
//!
//! It accepts more: a name written as one word; in quotes, git's `\b` and lines that go on after a backslash; `\\`
//! outside quotes; a few more letters of the world's alphabets in names; a wrong value that a later line overrides.
//! It says more: what Go ignores is a warning, and all errors come at once. Floats are Rust's (no hexadecimal ones).
//! INVARIANT: under a field's own spelling, what Go accepts gives the same value here.
//!
//! # Other uses
//!
//! [`Document`] is the file without types, for tools that show or rewrite it.

mod cursor;
mod de;
mod document;
mod duration;
mod error;
mod name;
mod parse;
mod recovery;
mod text;
mod warning;

use serde::de::DeserializeOwned;

pub use self::{
    document::{Document, Entry, Section, Setting},
    duration::{GoDuration, NotADuration},
    error::{Error, Errors, Found, Place, Problem},
    text::any_base,
    warning::{Oddity, Warning},
};

/// A config, and what was odd in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded<T> {
    /// The config.
    pub config: T,
    /// What a person should look at, in the order of the lines.
    pub warnings: Vec<Warning>,
}

/// Reads a file into a struct. The name is used in messages only; all errors, of syntax and of values, come at once.
pub fn read<T: DeserializeOwned>(file: &str, bytes: &[u8]) -> Result<Loaded<T>, Errors> {
    let (document, errors) = parse::parse(file, bytes);
    recovery::read(&document, errors)
}

impl Document {
    /// Reads the document into a struct; see [`read`].
    pub fn read<T: DeserializeOwned>(&self) -> Result<Loaded<T>, Errors> {
        recovery::read(self, Vec::new())
    }
}
