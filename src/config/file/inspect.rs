//! Keys for the inspector.

use crate::config::kind;
use crate::config::memory_limit::mebibytes;
use crate::config::section::section;
use crate::config::text::{Scalar, text};

section! {
    /// Limits on what the inspector keeps of runs, on routes with `inspect: events` or `inspect: full` and where
    /// `diglot inspect on` has switched it on.
    pub(crate) struct InspectSpec => #[derive(Copy)] pub(crate) InspectConfig {
        /// The maximum number of runs that are kept, including running ones. Beyond it, the route and outcome that has
        /// most of them loses those that ended first.
        pub(crate) runs: Scalar<kind::Count> = text("5000");
        /// The maximum memory for all runs together. Beyond it, ended runs are evicted; then nothing more is kept of
        /// running ones. A size. Defaults to 32MiB, or a sixteenth of the memory limit if that is less.
        pub(crate) bytes: Scalar<kind::Size> = mebibytes(32);
        /// The maximum memory for one run, of which the beginning is kept. A size.
        pub(crate) run_bytes: Scalar<kind::Size> = text("8MiB");
        /// Time for which a run is kept after its end. A duration.
        pub(crate) age: Scalar<kind::Duration> = text("15m");
    }
}
