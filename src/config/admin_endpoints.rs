//! Admin endpoints of a running gateway, for tools on the same host: above all a container's health check.
//!
//! The file on the disk need not be the one that the gateway runs on. One with mistakes is refused by a reload while the
//! gateway goes on with the last good one, and must not make it look ill. So nothing is read here but `listeners.status`
//! and `run_dir`, which no reload changes.

use std::path::{Path, PathBuf};

use super::listen::ListenerConfig;
use super::load::{env_var, read_source};
use super::load_context::LoadContext;
use super::parse::parse_and_check;
use super::problem::{ConfigProblem, ConfigProblems};
use super::{check, file};

/// The admin endpoints of a gateway, according to a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdminEndpointsConfig {
    /// `listeners.status`
    pub(crate) status: Vec<ListenerConfig>,
    /// `run_dir`
    pub(crate) run_dir: Option<PathBuf>,
}

impl AdminEndpointsConfig {
    /// Reads these keys from the file at `path`, even if other keys have mistakes.
    ///
    /// # Errors
    /// The file cannot be read, or these keys have mistakes.
    pub(crate) fn read(path: &Path) -> Result<AdminEndpointsConfig, ConfigProblems> {
        let name = path.display().to_string();
        let bytes = read_source(path)?;
        let text = str::from_utf8(&bytes).map_err(|_| ConfigProblem::for_file(&name, "is not UTF-8"))?;
        load_endpoints(&name, text, LoadContext::for_path(path, &env_var))
    }

    /// Returns the endpoints of a file that sets neither key.
    ///
    /// # Errors
    /// None; the defaults go through the same checks as a file.
    pub(crate) fn from_defaults() -> Result<AdminEndpointsConfig, ConfigProblems> {
        load_endpoints("the defaults", "", LoadContext::for_path(Path::new(""), &env_var))
    }
}

fn load_endpoints(name: &str, text: &str, with: LoadContext<'_>) -> Result<AdminEndpointsConfig, ConfigProblems> {
    parse_and_check::<file::AdminEndpointsSpec, _>(name, text, with, check::check_admin_endpoints)
        .map(|(_, (status, run_dir))| AdminEndpointsConfig { status, run_dir })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<AdminEndpointsConfig, ConfigProblems> {
        load_endpoints("f", text, LoadContext::for_path(Path::new("/etc/diglot.yaml"), &|_| None))
    }

    #[test]
    fn ignores_mistakes_in_other_keys() {
        let text = "listeners: {status: 0.0.0.0:1, data: nowhere}\nrun_dir: run\nroute: 1\nkeep_alive: [soon]\n";
        let reach = read(text).unwrap_or_else(|problems| panic!("{problems}"));
        let status: Vec<_> = reach.status.iter().map(|one| one.address.to_string()).collect();
        assert_eq!((status, reach.run_dir), (vec!["0.0.0.0:1".to_owned()], Some("/etc/run".into())));
        for text in ["listeners: {status: 1}\n", "run_dir: \"\"\n", "listeners: {\n", "status: [\n"] {
            read(text).expect_err(text);
        }
        assert_eq!(read("{}").ok(), AdminEndpointsConfig::from_defaults().ok());
        assert!(AdminEndpointsConfig::from_defaults().is_ok_and(|reach| reach.status.len() == 1));
    }
}
