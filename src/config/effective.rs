//! Prints the effective configuration: explicit keys and all defaults, without secrets.
//!
//! References such as `${NAME}` are kept. Scalars are redacted by kind: a secret prints as `***`, the digest of an API
//! key as its first digits. Relative file names become absolute unless they contain references.

use std::num::NonZeroUsize;
use std::path::Path;

use super::Config;
use super::access::RateLimitQuota;
use super::file::{ConfigFile, ListenersSpec, Scalar, ScalarOrList, SocketSpec, Spanned, Text, UpstreamHeaderSpec};
use super::kind;
use super::load::{self, LoadedConfig};
use super::parse::env_var;
use super::problem::{ConfigProblem, ConfigProblems};
use super::source::KeyCheck;

/// Checks the file at `path` and prints it as YAML, with keys in the order of the complete example.
pub(crate) fn yaml_from_path(path: &Path) -> Result<String, ConfigProblems> {
    let LoadedConfig { config, file, .. } = load::load_path(path, &env_var)?;
    to_yaml(path, file, &config)
}

/// Checks the file at `path` and prints it as JSON.
pub(crate) fn json_from_path(path: &Path) -> Result<String, ConfigProblems> {
    let LoadedConfig { config, file, .. } = load::load_path(path, &env_var)?;
    serde_json::to_string_pretty(&to_effective_file(path, file, &config)).map_err(|error| render_error(path, error))
}

/// The configuration in effect, with secrets masked.
#[derive(Debug)]
pub struct EffectiveConfig {
    pub(crate) config: Config,
    /// The YAML, as printed by [`yaml_from_path`].
    pub(crate) yaml: String,
    pub(crate) warnings: Vec<ConfigProblem>,
}

/// Checks `bytes` as the content of the file at `path`.
///
/// # Errors
/// Returns the errors of [`load::load_bytes`].
pub fn load_effective(path: &Path, bytes: &[u8], keys: KeyCheck) -> Result<EffectiveConfig, ConfigProblems> {
    let LoadedConfig { config, warnings, file } = load::load_bytes(path, bytes, keys)?;
    let printed = to_yaml(path, file, &config)?;
    Ok(EffectiveConfig { config, yaml: printed, warnings })
}

fn to_yaml(path: &Path, file: ConfigFile, config: &Config) -> Result<String, ConfigProblems> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(&to_effective_file(path, file, config), options)
        .map_err(|error| render_error(path, error))
}

/// Reports a printing failure, which is always a bug in Diglot.
fn render_error(path: &Path, error: impl std::fmt::Display) -> ConfigProblems {
    ConfigProblem::for_path(path, format!("cannot be printed: {error}")).into()
}

fn to_effective_file(path: &Path, mut file: ConfigFile, config: &Config) -> ConfigFile {
    fill_derived(&mut file, config);
    let base = path.parent().unwrap_or(Path::new(""));
    for name in file_names_mut(&mut file) {
        make_absolute(name, base);
    }
    file
}

fn make_absolute(name: &mut FileName, base: &Path) {
    if !name.contains("${") && Path::new(&**name).is_relative() {
        // Fails only for an empty name or if the current directory was removed.
        if let Ok(path) = std::path::absolute(base.join(name.trim())) {
            *name = Text::new(path.display().to_string());
        }
    }
}

type FileName = Text<kind::FileName>;

fn file_names_mut(file: &mut ConfigFile) -> Vec<&mut FileName> {
    let mut names: Vec<&mut Spanned<FileName>> = file.run_dir.iter_mut().collect();
    for issuer in file.auth.issuers.iter_mut().map(value_mut) {
        names.extend(
            [&mut issuer.jwks_file, &mut issuer.public_key_file, &mut issuer.secret_file].into_iter().flatten(),
        );
    }
    names.extend(file.auth.api_keys.iter_mut().filter_map(|source| source.value.file.as_mut()));
    names.extend(file.redis.iter_mut().filter_map(|redis| redis.value.password_file.as_mut()));
    let ListenersSpec { data, status, inspector } = &mut file.listeners;
    for sockets in [data, status, inspector] {
        for entry in sockets.value.values_mut() {
            if let SocketSpec::Mapping(mapping) = entry
                && let Some(tls) = mapping.tls.as_mut().map(value_mut)
            {
                names.extend([tls.cert.as_mut(), tls.key.as_mut(), tls.client_ca.as_mut()].into_iter().flatten());
            }
        }
    }
    for route in file.routes.value.iter_mut().map(value_mut) {
        if let Some(tls) = route.upstream_tls.as_mut().map(value_mut) {
            names.extend([&mut tls.ca, &mut tls.cert, &mut tls.key].into_iter().flatten());
        }
        for header in route.upstream_headers.0.values_mut().map(value_mut) {
            if let UpstreamHeaderSpec::File(file) = header {
                names.extend(file.file.as_mut());
            }
        }
    }
    names.into_iter().map(value_mut).collect()
}

/// Fills in values derived from other keys or the system: routes' `auth`, issuers' algorithms, bursts, connections,
/// runs.
fn fill_derived(file: &mut ConfigFile, config: &Config) {
    let count = |count: NonZeroUsize| Scalar::without_position(Text::new(count.to_string()));
    let limits = &mut file.limits;
    limits.connections.get_or_insert_with(|| count(config.limits.max_connections()));
    limits.max_streams.get_or_insert_with(|| count(config.limits.max_runs()));
    for (written, issuer) in file.auth.issuers.iter_mut().map(value_mut).zip(&config.auth.issuers) {
        if written.algorithms.is_empty() {
            written.algorithms = issuer
                .algorithms
                .iter()
                .map(|algorithm| Scalar::without_position(Text::new(algorithm.name())))
                .collect();
        }
    }
    for (written, policy) in file.rate_limits.iter_mut().map(value_mut).zip(&config.rate_limits.policies) {
        let burst = |quota: &RateLimitQuota| Scalar::without_position(Text::new(quota.burst.to_string()));
        written.burst.get_or_insert_with(|| burst(&policy.quota));
        for (tier, quota) in &policy.tiers {
            if let Some(tier) = written.tiers.get_mut(tier).map(value_mut) {
                tier.burst.get_or_insert_with(|| burst(quota));
            }
        }
    }
    for (written, route) in file.routes.value.iter_mut().map(value_mut).zip(&config.routes) {
        let methods = &route.access.methods;
        let names = || {
            ScalarOrList::Many(methods.iter().map(|name| Scalar::without_position(Text::new(name.as_str()))).collect())
        };
        let all = if methods.is_empty() { ScalarOrList::One(Text::new("none")) } else { names() };
        written.methods.0.get_or_insert(Spanned::without_position(all));
    }
}

fn value_mut<T>(spanned: &mut Spanned<T>) -> &mut T {
    &mut spanned.value
}
