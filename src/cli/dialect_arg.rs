//! Dialect arguments: `hai`, or with options `hai:string,snake`; a dialect file, or a dialect of a configuration,
//! `diglot.yaml#acme`.

use crate::config::dialect_text;
use crate::config::load;
use crate::config::{did_you_mean, intern_file_dialect};
use crate::dialect::{self, INTERRUPT_TOOL, PeerDialect};
use std::path::Path;

/// Parses a dialect argument.
///
/// # Errors
/// Returns an error message for clap to print: every problem of a file.
pub(super) fn parse_dialect(text: &str) -> Result<PeerDialect, String> {
    let (path, name) = match text.split_once('#') {
        Some((path, name)) => (path, Some(name)),
        None => (text, None),
    };
    let is_file = Path::new(path).extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    match (is_file, name) {
        (false, _) => dialect_text::parse_dialect(text),
        (true, None) => {
            let file = load::load_dialect_file(Path::new(path)).map_err(|problems| problems.to_string())?;
            Ok(PeerDialect::new(intern_file_dialect(file.dialect)))
        }
        (true, Some(name)) => find_configured(path, name),
    }
}

/// Finds a dialect that a route of a configuration uses.
fn find_configured(path: &str, name: &str) -> Result<PeerDialect, String> {
    let config = load::from_path(Path::new(path)).map_err(|problems| problems.to_string())?;
    let sides: Vec<PeerDialect> = config.routes.iter().flat_map(|route| [route.agent, route.client]).collect();
    let found = sides.iter().copied().find(|side| side.name() == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = sides.iter().map(PeerDialect::name).collect();
        format!("no route of {path} uses the dialect `{name}`; {}", did_you_mean(name, &known))
    })
}

/// Returns the `--help` text of a dialect argument.
#[must_use]
pub(super) fn dialect_help() -> String {
    let names: Vec<&str> = dialect::ALL.iter().map(|dialect| dialect.name).collect();
    format!(
        "{}; options after a colon: hai:string,snake (or blocks, camel), ag-ui-0:pin=0.0.45, ag-ui-snake:timestamp=s, hai:{INTERRUPT_TOOL}=NAME; or a dialect file, such as config/dialects/openai-chat.yaml, or a dialect of a configuration, such as diglot.yaml#acme",
        names.join(", ")
    )
}
