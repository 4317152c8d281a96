//! `diglot version`: which build this is, for whoever reports a mistake. A line for each thing in which one build differs from
//! another.

use super::{CliExit, print_line};
use std::env::consts::{ARCH, OS};

/// What the C library is called, as in the name of a target.
const ENVIRONMENT: &str = if cfg!(target_env = "gnu") {
    "gnu"
} else if cfg!(target_env = "musl") {
    "musl"
} else {
    "other"
};

/// What of Cargo.toml's features is in it.
const FEATURES: &str = if cfg!(feature = "otel") { "server otel" } else { "server" };

/// The commit that it was built from, where whoever built it said so (`DIGLOT_REVISION`, as deploy/Dockerfile does).
const REVISION: Option<&str> = option_env!("DIGLOT_REVISION");

pub(super) fn run() -> CliExit {
    let version = env!("CARGO_PKG_VERSION");
    let revision = REVISION.filter(|revision| !revision.is_empty()).unwrap_or("unknown");
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    print_line(format_args!(
        "diglot {version}\ntarget {ARCH}-{OS}-{ENVIRONMENT}\nbuild {build}\nfeatures {FEATURES}\nrevision {revision}"
    ));
    CliExit::Ok
}
