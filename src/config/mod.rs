//! The checked configuration.
//!
//! ```text
//! diglot.yaml --recovery--> file::ConfigFile --check--> Config
//!                 \                             \
//!                  every ConfigProblem           every ConfigProblem
//! ```
//! `file` holds the file as written, with the manual and the defaults. Each scalar's kind (`kind`) defines its schema
//! and how much of it is printed. `recovery` reads as much of the file as possible and reports mistakes in YAML, keys
//! and shapes. `check` expands variables and parses each value with `scalar`. Neither reports consequences of other
//! mistakes. Only [`load`] creates a `Config`, so every `Config` has been checked.

use std::path::PathBuf;
use std::time::Duration;

use self::access::{RateLimitsConfig, TrustedProxies};
use self::file::{AuthConfig, InspectConfig, ReplayConfig};
use self::listen::ListenerConfig;
use self::process::ProcessConfig;

mod duration;
pub(crate) mod header_names;
mod redact;
mod template;
mod substitution;
pub(crate) mod certificate;
pub(crate) mod access;
pub(crate) mod inspect;
pub mod listen;
pub(crate) mod process;
pub(crate) mod replay;
mod upstream;
pub(crate) mod enum_values;
mod scalar;
mod problem;
pub(crate) mod shipped_dialects;
pub(crate) mod dialect_text;
mod kind;
mod text;
mod memory_limit;
pub(crate) mod source;
mod checker;
mod section;
pub(crate) mod file;
mod timeouts;
pub mod schema;
mod excerpt;
mod spanned_tree;
pub mod keys;
mod tree_reader;
mod line_marks;
mod line_faults;
mod yaml_hints;
mod yaml_errors;
mod foreign_format;
mod recovery;
mod parse;
pub(crate) mod dialect_file;
mod check;
pub(crate) mod admin_endpoints;
pub mod load;
pub mod effective;
mod difference;
pub mod reload;
#[cfg(fuzzing)]
#[path = "../../tests/fuzz/internals/config.rs"]
pub mod fuzzing;
#[cfg(test)]
mod tests;

pub(crate) use check::intern_file_dialect;
pub use dialect_file::dialect_file_schema;
pub(crate) use duration::format_duration;
pub(crate) use file::{EjectionConfig, HealthCheckConfig, TimeoutsConfig};
pub use file::{LimitsConfig, RouteConfig};
pub(crate) use memory_limit::is_memory_below;
pub use problem::{ConfigProblem, ConfigProblems, ProblemSeverity, did_you_mean};
pub(crate) use problem::{is_one_edit_off, nearest, quote_names};
pub(crate) use template::{PathId, PathTemplate};
pub(crate) use upstream::{
    AgentErrors, UpstreamAddress, UpstreamClientCert, UpstreamConfig, UpstreamHttpVersion, UpstreamTlsConfig,
};

/// Parses a non-zero duration: `500ms`, `15s`, `5m`, `1h`. The error includes a hint.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    scalar::parse_duration(text).map_err(|fault| format!("{}; {}", fault.predicate, fault.hint))
}

/// Parses a size in bytes: `65536` or `64KiB`. The error includes a hint.
pub(crate) fn parse_size(text: &str) -> Result<usize, String> {
    scalar::parse_size(text).map_err(|fault| format!("{}; {}", fault.predicate, fault.hint))
}

/// A checked configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Data plane listeners. Never empty; no two conflict, with each other or with `status`.
    pub data: Vec<ListenerConfig>,
    /// Status plane listeners. Empty if the status plane is off.
    pub status: Vec<ListenerConfig>,
    /// Listeners of the inspector, on loopback alone. Empty if it is off.
    pub inspector: Vec<ListenerConfig>,
    /// Peers whose `Forwarded`, `X-Forwarded-For` and PROXY protocol headers are trusted.
    pub(crate) trusted_proxies: TrustedProxies,
    pub(crate) auth: AuthConfig,
    /// Rate limit policies.
    pub rate_limits: RateLimitsConfig,
    /// Limits on requests, runs and connections.
    pub limits: LimitsConfig,
    /// The idle time after which a client receives an SSE comment. Never zero.
    pub keep_alive: Duration,
    /// Drain, upgrade and control socket settings.
    pub process: ProcessConfig,
    pub(crate) replay: ReplayConfig,
    pub(crate) inspect: InspectConfig,
    /// Files that describe dialects of `routes`.
    pub(crate) dialect_files: Vec<PathBuf>,
    /// Routes in file order. Never empty; no two share a path or a name.
    pub routes: Vec<RouteConfig>,
}
