//! The integration tests, one binary. A line per module on what belongs there:
//!
//! - `architecture`: what the tree must look like; rules over the text of the sources, nothing is run.

mod architecture;
mod exact;
mod golden;
mod laws;
