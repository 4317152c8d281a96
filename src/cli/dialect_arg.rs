//! Dialect arguments: `hai`, or with options `hai:string,snake`; a dialect file, or the name of one that ships; or
//! `diglot.yaml#acme`, a dialect of a configuration.

use crate::config::dialect_file::DialectFile;
use crate::config::dialect_text::{self, is_dialect_path};
use crate::config::load;
use crate::config::shipped_dialects::SHIPPED_DIALECTS;
use crate::config::{did_you_mean, intern_file_dialect};
use crate::dialect::{self, INTERRUPT_TOOL, PeerDialect};
use std::path::Path;

/// Parses a dialect argument.
///
/// # Errors
/// Returns an error message for clap to print: every problem of a file.
pub(super) fn parse_dialect(text: &str) -> Result<PeerDialect, String> {
    if let Some(file) = read_dialect_file(text)? {
        return Ok(PeerDialect::new(intern_file_dialect(file.dialect)));
    }
    match text.split_once('#') {
        Some((path, name)) if is_dialect_path(path) => find_configured(path, name),
        _ => dialect_text::parse_dialect(text),
    }
}

/// Reads the dialect file that an argument names, by its path, as one that ships, or as one of a configuration; `None`
/// for any other dialect.
///
/// # Errors
/// Returns every problem of the file.
pub(super) fn read_dialect_file(text: &str) -> Result<Option<DialectFile>, String> {
    let read = match (load::load_shipped_dialect(text), text.split_once('#')) {
        (Some(shipped), _) => shipped,
        (None, Some((path, name))) if is_dialect_path(path) => return read_configured_file(path, name),
        (None, _) if is_dialect_path(text) => load::load_dialect_file(Path::new(text)),
        (None, _) => return Ok(None),
    };
    read.map(Some).map_err(|problems| problems.to_string())
}

/// Reads the dialect file of a configuration whose dialect has this name, if a route uses it.
fn read_configured_file(path: &str, name: &str) -> Result<Option<DialectFile>, String> {
    if find_configured(path, name)?.dialect.mapping.is_none() {
        return Ok(None);
    }
    let config = load::from_path(Path::new(path)).map_err(|problems| problems.to_string())?;
    let files = config.dialect_files.iter().map(|file| load::load_dialect_file(file));
    let own = files.flatten().find(|file| file.dialect.name == name);
    own.map(Some).ok_or_else(|| format!("{path} has no dialect file of `{name}`"))
}

/// Finds a dialect that a route of a configuration uses.
fn find_configured(path: &str, name: &str) -> Result<PeerDialect, String> {
    let config = load::from_path(Path::new(path)).map_err(|problems| problems.to_string())?;
    let sides: Vec<PeerDialect> = config.routes.iter().flat_map(|route| [route.agent, route.client]).collect();
    let found = sides.iter().copied().find(|side| side.name() == name);
    found.ok_or_else(|| {
        let mut known: Vec<&str> = sides.iter().map(PeerDialect::name).collect();
        known.sort_unstable();
        known.dedup();
        format!("no route of {path} uses the dialect `{name}`; {}", did_you_mean(name, &known))
    })
}

/// Returns the `--help` text of a dialect argument.
#[must_use]
pub(super) fn dialect_help() -> String {
    let names: Vec<&str> = dialect::ALL.iter().map(|dialect| dialect.name).collect();
    let shipped: Vec<&str> = SHIPPED_DIALECTS.iter().map(|(name, _)| *name).collect();
    format!(
        "{}; options after a colon: hai:string,snake (or blocks, camel), ag-ui-0:pin=0.0.45, ag-ui-snake:timestamp=s, hai:{INTERRUPT_TOOL}=NAME; of an agent also {}, your own dialect file, such as acme-chat.yaml, or a dialect of a configuration, such as diglot.yaml#acme",
        names.join(", "),
        shipped.join(", ")
    )
}
