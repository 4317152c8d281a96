//! `diglot version`: prints the properties of the build, one per line, for bug reports.

use super::output::{CliResult, print_result};
use std::env::consts::{ARCH, OS};

/// The C library, as named in target triples.
const ENVIRONMENT: &str = if cfg!(target_env = "gnu") {
    "gnu"
} else if cfg!(target_env = "musl") {
    "musl"
} else {
    "other"
};

/// The enabled Cargo features.
const FEATURES: &str = if cfg!(feature = "otel") { "server otel" } else { "server" };

/// The commit that was built, from `DIGLOT_REVISION`, which deploy/Dockerfile sets.
const REVISION: Option<&str> = option_env!("DIGLOT_REVISION");

pub(super) fn run() -> CliResult {
    let version = env!("CARGO_PKG_VERSION");
    let revision = REVISION.filter(|revision| !revision.is_empty()).unwrap_or("unknown");
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    print_result(format_args!(
        "diglot {version}\ntarget {ARCH}-{OS}-{ENVIRONMENT}\nbuild {build}\nfeatures {FEATURES}\nrevision {revision}"
    ))
}
