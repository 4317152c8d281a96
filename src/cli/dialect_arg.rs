//! Dialect arguments: `hai`, or with options `hai:string,snake`.

pub(super) use crate::config::dialect_text::parse_dialect;
use crate::dialect::{self, INTERRUPT_TOOL};

/// Returns the `--help` text of a dialect argument.
#[must_use]
pub(super) fn dialect_help() -> String {
    let names: Vec<&str> = dialect::ALL.iter().map(|dialect| dialect.name).collect();
    format!(
        "{}; options after a colon: hai:string,snake (or blocks, camel), ag-ui-0:pin=0.0.45, ag-ui-snake:timestamp=s, hai:{INTERRUPT_TOOL}=NAME",
        names.join(", ")
    )
}
