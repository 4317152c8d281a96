//! Checks a file: expands variables, parses each value, applies rules that involve several keys, and reports every
//! mistake.

use super::Config;
use super::access::{RateLimitsConfig, TrustedProxies, TrustedProxy};
use super::checker::{ConfigChecker, Place, ReferenceKind};
use super::file::ConfigFile;
use super::problem::ConfigProblem;
use super::process::ProcessConfig;
use super::section::Section;
use super::source::SourceText;

mod interner;
mod lints;
mod process;
mod rate_limits;
mod names;
mod access;
mod auth;
mod api_keys;
mod custom_dialects;
mod listen;
mod admin_endpoints;
mod paths;
mod peer_dialect;
mod replay;
mod upstream;
mod route;

pub(super) use admin_endpoints::check_admin_endpoints;
pub(super) use api_keys::load_key_file;
pub(crate) use interner::intern_file_dialect;
pub(super) use interner::interned_file_dialects;

/// Returns the configuration with its warnings, or all mistakes in the file.
pub(super) fn check(
    source: &SourceText<'_>,
    file: &ConfigFile,
) -> Result<(Config, Vec<ConfigProblem>), Vec<ConfigProblem>> {
    let mut checker = ConfigChecker::new(source);
    let config = checker.check_file(file);
    if let Some(config) = &config {
        checker.lint_config(file, config);
    }
    let mut warnings = std::mem::take(&mut checker.warnings);
    // Those of the configuration come before those of its dialect files.
    let is_of_other_file = |warning: &ConfigProblem| warning.file != source.name;
    warnings.sort_by_key(|own| (is_of_other_file(own), own.file.clone(), own.line.unwrap_or(u64::MAX), own.column));
    checker.finish(config).map(|config| (config, warnings))
}

impl ConfigChecker<'_> {
    fn check_file(&mut self, file: &ConfigFile) -> Option<Config> {
        self.has_redis = file.redis.is_some() || self.is_skipped("redis");
        if self.is_skipped("rate_limits") {
            self.kinds_with_unnamed.push(ReferenceKind::RateLimit);
        }
        if self.is_skipped("dialects")
            || self.is_skipped("dialect_files")
            || file.dialects.iter().any(|dialect| dialect.value.name.is_none())
        {
            self.kinds_with_unnamed.push(ReferenceKind::Dialect);
        }
        self.check_dialect_files(&file.dialect_files);
        let keys = file.check_keys(self, &Place::new(""));
        self.check_limit_names(&file.rate_limits);
        self.check_routes(&file.routes);
        let trusted_proxies = keys.trusted_proxies.map(collect_proxies);
        self.check_proxy_headers(trusted_proxies.as_ref());
        if let (Some(Some(run_dir)), Some(written)) = (&keys.run_dir, &file.run_dir) {
            self.check_run_dir(run_dir, written);
        }
        let (listeners, limits) = (keys.listeners?, keys.limits?);
        Some(Config {
            data: listeners.data,
            status: listeners.status,
            inspector: listeners.inspector,
            trusted_proxies: trusted_proxies?,
            auth: keys.auth?,
            rate_limits: RateLimitsConfig {
                policies: keys.rate_limits?,
                legacy_headers: limits.legacy_headers,
                redis: keys.redis?,
            },
            limits,
            keep_alive: keys.keep_alive?,
            process: ProcessConfig {
                drain_grace: keys.drain_grace?,
                drain_timeout: keys.drain_timeout?,
                upgrade_timeout: keys.upgrade_timeout?,
                run_dir: keys.run_dir?,
            },
            replay: keys.replay?,
            inspect: keys.inspect?,
            dialect_files: keys.dialect_files?,
            routes: keys.routes?,
        })
    }
}

fn collect_proxies(proxies: Vec<TrustedProxy>) -> TrustedProxies {
    let mut trusted = TrustedProxies::default();
    for proxy in proxies {
        match proxy {
            TrustedProxy::Network(network) => trusted.networks.push(network),
            TrustedProxy::Unix => trusted.unix = true,
        }
    }
    trusted
}
