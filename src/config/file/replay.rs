//! Keys for runs that outlive their clients.

use crate::config::kind;
use crate::config::memory_limit::mebibytes;
use crate::config::section::section;
use crate::config::text::{Scalar, text};

section! {
    /// The replay log, from which clients resume runs on routes with `on_disconnect: continue for …`.
    pub(crate) struct ReplaySpec => #[derive(Copy)] pub(crate) ReplayConfig, cross-checked {
        /// The maximum number of runs that are kept, including running ones. The run that ended first is evicted first.
        pub(crate) runs: Scalar<kind::Count> = text("10000");
        /// The maximum memory for all runs together, running ones included. Beyond it, ended runs are evicted; then a
        /// running one is condensed, and if that does not suffice, it continues but cannot be resumed. A size. Defaults
        /// to 32MiB, or a sixteenth of the memory limit if that is less.
        pub(crate) bytes: Scalar<kind::Size> = mebibytes(32);
        /// The maximum memory for one run. A larger run is condensed; if it is still too large then, it continues but
        /// cannot be resumed. A size.
        pub(crate) run_bytes: Scalar<kind::Size> = text("1MiB");
        /// Time for which a run is kept after its end. A duration.
        pub(crate) age: Scalar<kind::Duration> = text("5m");
        /// `memory`: a client can resume only at the same replica. `redis`: at any replica; the content of runs is then
        /// stored in `redis` as well.
        pub(crate) store: Scalar<kind::Store> = text("memory");
    }
}
