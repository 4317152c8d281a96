//! Loads and checks configurations.

use std::path::Path;
use std::sync::Once;

use super::access::ApiKeyConfig;
use super::admin_endpoints::AdminEndpointsConfig;
use super::dialect_file::{DialectFile, FileKind};
use super::file::{AdminEndpointsSpec, ConfigFile};
use super::parse::{decode_utf8, env_var, parse_and_check};
use super::problem::{ConfigProblem, ConfigProblems};
use super::shipped_dialects::SHIPPED_DIALECTS;
use super::source::{KeyCheck, LoadContext};
use super::{Config, check};
use crate::dialect::Dialect;
use crate::net::read_file;

/// Loads the file at `path`. Resolves relative file names against its directory.
pub(crate) fn from_path(path: &Path) -> Result<Config, ConfigProblems> {
    load_path(path, &env_var).map(|loaded| loaded.config)
}

pub(super) fn load_path(path: &Path, lookup: &dyn Fn(&str) -> Option<String>) -> Result<LoadedConfig, ConfigProblems> {
    load_with(path, &read_source(path)?, LoadContext::for_path(path, lookup))
}

pub(crate) fn load_bytes(path: &Path, bytes: &[u8], keys: KeyCheck) -> Result<LoadedConfig, ConfigProblems> {
    load_with(path, bytes, LoadContext { key_check: keys, ..LoadContext::for_path(path, &env_var) })
}

pub(crate) fn read_source(path: &Path) -> Result<Vec<u8>, ConfigProblems> {
    read_file::read_file(path).map_err(|error| {
        let hint = if path.is_dir() {
            "name a file in this directory"
        } else {
            "name a YAML file that this user may read, of at most 1 MiB"
        };
        ConfigProblem::for_path(path, error.to_string()).with_hint(hint).into()
    })
}

pub(super) fn load_with(path: &Path, bytes: &[u8], with: LoadContext<'_>) -> Result<LoadedConfig, ConfigProblems> {
    let name = path.display().to_string();
    load_text(&name, decode_utf8(&name, bytes)?, with)
}

fn load_text(name: &str, text: &str, with: LoadContext<'_>) -> Result<LoadedConfig, ConfigProblems> {
    refuse_dialect_file(name, text)?;
    let (file, (config, warnings)) = parse_and_check::<ConfigFile, _>(name, text, with, check::check)?;
    Ok(LoadedConfig { config, warnings, file })
}

fn refuse_dialect_file(name: &str, text: &str) -> Result<(), ConfigProblems> {
    if FileKind::classify(text) != FileKind::Dialect {
        return Ok(());
    }
    let problem = ConfigProblem::for_file(name, "this is a dialect file, not a configuration");
    let hint = "name it in `dialect_files:` of a configuration, and its `name` as `agent` of a route there";
    Err(problem.with_hint(hint).into())
}

/// Checks `text`, with `name` as its file name. Resolves relative file names against the current directory.
///
/// # Errors
/// Returns every problem in the text.
pub fn from_str(name: &str, text: &str) -> Result<Config, ConfigProblems> {
    from_str_with(name, text, &env_var)
}

/// Checks `text` like [`from_str`], with environment variables from `lookup`.
///
/// # Errors
/// Returns every problem in the text.
pub fn from_str_with(
    name: &str,
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, ConfigProblems> {
    load_text(name, text, LoadContext::for_path(Path::new(""), lookup)).map(|loaded| loaded.config)
}

/// Reads and compiles the dialect file at `path`.
pub(crate) fn load_dialect_file(path: &Path) -> Result<DialectFile, ConfigProblems> {
    compile_dialect_file(path, &read_source(path)?)
}

/// Compiles a dialect file that was read from `path`.
pub(crate) fn compile_dialect_file(path: &Path, bytes: &[u8]) -> Result<DialectFile, ConfigProblems> {
    DialectFile::compile(&path.display().to_string(), bytes, &env_var)
}

/// Compiles the dialect file of this name that ships with Diglot; `None` if there is none.
pub(crate) fn load_shipped_dialect(name: &str) -> Option<Result<DialectFile, ConfigProblems>> {
    let (name, text) = SHIPPED_DIALECTS.iter().find(|(own, _)| *own == name)?;
    Some(DialectFile::compile(name, text.as_bytes(), &env_var))
}

/// Returns the dialects of the files that this process has read, and of those that ship.
pub(crate) fn known_file_dialects() -> Vec<&'static Dialect> {
    static READ_SHIPPED: Once = Once::new();
    READ_SHIPPED.call_once(|| {
        // Values from the environment are in requests alone.
        let lookup = |_: &str| Some(String::new());
        for (name, text) in SHIPPED_DIALECTS {
            if let Ok(file) = DialectFile::compile(name, text.as_bytes(), &lookup) {
                check::intern_file_dialect(file.dialect);
            }
        }
    });
    check::interned_file_dialects()
}

pub(crate) fn load_key_file(path: &Path, content: &[u8]) -> Result<Vec<ApiKeyConfig>, ConfigProblems> {
    check::load_key_file(path, content, &env_var)
}

#[derive(Debug)]
pub(crate) struct LoadedConfig {
    pub(crate) config: Config,
    pub(crate) warnings: Vec<ConfigProblem>,
    pub(super) file: ConfigFile,
}

impl AdminEndpointsConfig {
    /// Reads the admin endpoints from the file at `path`, ignoring mistakes in other keys.
    pub(crate) fn read(path: &Path) -> Result<AdminEndpointsConfig, ConfigProblems> {
        let name = path.display().to_string();
        load_endpoints(&name, decode_utf8(&name, &read_source(path)?)?, LoadContext::for_path(path, &env_var))
    }

    /// Returns the default admin endpoints.
    pub(crate) fn from_defaults() -> Result<AdminEndpointsConfig, ConfigProblems> {
        load_endpoints("the defaults", "", LoadContext::for_path(Path::new(""), &env_var))
    }
}

fn load_endpoints(name: &str, text: &str, with: LoadContext<'_>) -> Result<AdminEndpointsConfig, ConfigProblems> {
    refuse_dialect_file(name, text)?;
    parse_and_check::<AdminEndpointsSpec, _>(name, text, with, check::check_admin_endpoints)
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
