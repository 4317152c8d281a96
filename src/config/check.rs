//! From what the operator wrote to what the program runs on: puts variables in, reads each value, and collects every
//! problem instead of stopping at the first.
//!
//! A value that cannot be read is `None` from there on, and its problem has been noted; the pieces come together with
//! `?`, so that nothing is made up for it.

use std::path::Path;

use serde_saphyr::Location;

use super::access::ApiKeyConfig;
use super::file::{self, ApiKeyFile, ConfigFile};
use super::listen::ListenerConfig;
use super::problem::{ConfigProblem, ConfigProblems, SourcePosition};
use super::scalar;
use super::source::{LoadContext, SourceText, decode_utf8, parse_and_check};
use super::{Config, LimitsConfig};
use crate::dialect::Dialect;

mod interner;
mod lints;
mod process;
mod rate_limits;
mod value;
mod access;
mod admin_endpoints;
mod auth;
mod custom_dialects;
mod listen;
mod paths;
mod peer_dialect;
mod replay;
mod route;
mod secret;
mod upstream;

pub(super) use admin_endpoints::check_admin_endpoints;
use value::{collect_values, quote_names, quote_value};

/// Checks `file`, which was read from `source`.
///
/// # Errors
/// Everything that is wrong with it. Else what is doubtful about it goes with the configuration.
pub(super) fn check(
    source: &SourceText<'_>,
    file: &ConfigFile,
) -> Result<(Config, Vec<ConfigProblem>), Vec<ConfigProblem>> {
    let mut check = ConfigChecker::new(source);
    let config = check.check_file(file);
    if let Some(config) = &config {
        check.lint_config(file, config);
    }
    let mut warnings = std::mem::take(&mut check.warnings);
    warnings.sort_by_key(|warning| (warning.line.unwrap_or(u64::MAX), warning.column));
    check.finish(config).map(|config| (config, warnings))
}

/// Checks the API keys of `file`, which was read from `source`.
fn check_keys(source: &SourceText<'_>, file: &ApiKeyFile) -> Result<Vec<ApiKeyConfig>, Vec<ConfigProblem>> {
    let mut check = ConfigChecker::new(source);
    let keys = check.check_key_list(&file.keys);
    check.finish(keys)
}

/// Checks the content of the file of API keys at `path`.
///
/// # Errors
/// Returns every problem of the file.
pub(super) fn load_key_file(
    path: &Path,
    content: &[u8],
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<ApiKeyConfig>, ConfigProblems> {
    let name = path.display().to_string();
    let text = decode_utf8(&name, content)?;
    let both = parse_and_check::<ApiKeyFile, _>(&name, text, LoadContext::for_path(path, lookup), check_keys);
    both.map(|(_, keys)| keys).map_err(|problems| match problems.as_slice() {
        // The list alone, without `keys:`, is the most frequent mistake.
        [whole] if whole.path.is_empty() && whole.message.ends_with("found a list") => {
            whole.clone().with_hint("put `keys:` on its first line").into()
        }
        _ => problems,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReferenceKind {
    Dialect,
    /// An issuer or a list of API keys.
    Method,
    RateLimit,
}

struct ConfigChecker<'a> {
    source: SourceText<'a>,
    /// Dialects of this file.
    custom_dialects: Vec<&'static Dialect>,
    /// Names of those that have mistakes, which were noted where they are.
    invalid_dialects: Vec<String>,
    /// The listeners of the data plane, as far as they could be read: no upstream may lead back there.
    own_listeners: Vec<LocatedValue<ListenerConfig>>,
    /// Issuers and lists of API keys, for routes to name.
    methods: Vec<auth::AuthMethodRef>,
    /// Rate limits, for routes to name; in the order of the file.
    policies: Vec<rate_limits::RateLimitRef>,
    /// Of which things some have no name that could be read: any other name may be theirs.
    kinds_with_unnamed: Vec<ReferenceKind>,
    problems: Vec<ConfigProblem>,
    warnings: Vec<ConfigProblem>,
}

impl<'a> ConfigChecker<'a> {
    fn new(source: &SourceText<'a>) -> ConfigChecker<'a> {
        let (custom_dialects, invalid_dialects, own_listeners) = (Vec::new(), Vec::new(), Vec::new());
        let (methods, policies, kinds_with_unnamed, problems) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let warnings = Vec::new();
        ConfigChecker {
            source: *source,
            custom_dialects,
            invalid_dialects,
            own_listeners,
            methods,
            policies,
            kinds_with_unnamed,
            problems,
            warnings,
        }
    }

    fn finish<T>(self, read: Option<T>) -> Result<T, Vec<ConfigProblem>> {
        match read {
            Some(read) if self.problems.is_empty() => Ok(read),
            _ => Err(self.problems),
        }
    }

    /// Returns whether the value at `path` was skipped because it could not be read, which is already reported.
    fn is_skipped(&self, path: &str) -> bool {
        let rest = |lost: &String| {
            path.strip_prefix(lost.as_str()).map(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.source.repairs.skipped_paths.iter().any(|lost| rest(lost) == Some(true))
    }
}

/// A scalar with its variables put in, on its way to becoming a value.
struct ExpandedScalar {
    text: String,
    /// Its form in messages: as it was written, so never with the value of a variable.
    display: String,
    substituted: bool,
}

/// A value and where it was written.
#[derive(Clone)]
struct LocatedValue<T> {
    value: T,
    path: String,
    position: Option<SourcePosition>,
}

impl<T> LocatedValue<T> {
    /// A wrong value is shown where it is defined; two of the same are told apart by where they are used.
    fn new(value: T, path: &str, used: Location) -> LocatedValue<T> {
        LocatedValue { value, path: path.to_owned(), position: position(used) }
    }

    fn describe_location(&self) -> String {
        match self.position {
            Some(position) => format!("{} ({position})", self.path),
            None => format!("the default of {}", self.path),
        }
    }
}

impl ConfigChecker<'_> {
    fn check_file(&mut self, file: &ConfigFile) -> Option<Config> {
        let trusted_proxies = self.check_trusted_proxies(&file.trusted_proxies);
        let listeners = self.check_listeners(&file.listeners, trusted_proxies.as_ref());
        let replay = self.check_replay(&file.replay, file.redis.is_some() || self.is_skipped("redis"));
        let limits = self.check_limits(&file.limits);
        let keep_alive = self.read_value(&file.keep_alive, "keep_alive", scalar::parse_duration);
        let process = self.check_process(file);
        let auth = self.check_auth(&file.auth);
        let rate_limits = self.check_rate_limits(file);
        self.check_dialects(&file.dialects);
        let routes = self.check_routes(&file.routes);
        let (data, status) = listeners?;
        Some(Config {
            data,
            status,
            trusted_proxies: trusted_proxies?,
            auth: auth?,
            rate_limits: rate_limits?,
            limits: limits?,
            keep_alive: keep_alive?,
            process: process?,
            replay: replay?,
            routes: routes?,
        })
    }

    fn check_limits(&mut self, limits: &file::LimitsSpec) -> Option<LimitsConfig> {
        let request_body = self.read_value(&limits.request_body, "limits.request_body", scalar::parse_size);
        let frame = self.read_value(&limits.frame, "limits.frame", scalar::parse_size);
        let client_buffer = self.read_value(&limits.client_buffer, "limits.client_buffer", scalar::parse_size);
        let header_bytes = self.read_value(&limits.header_bytes, "limits.header_bytes", scalar::parse_head_size);
        let headers = self.read_value(&limits.headers, "limits.headers", scalar::parse_count);
        let head_timeout = self.read_value(&limits.head_timeout, "limits.head_timeout", scalar::parse_duration);
        let body_timeout = self.read_value(&limits.body_timeout, "limits.body_timeout", scalar::parse_duration);
        let idle_timeout = self.read_value(&limits.idle_timeout, "limits.idle_timeout", scalar::parse_duration);
        let connections = self.read_value(&limits.connections, "limits.connections", scalar::parse_count);
        let path = "limits.connections_per_address";
        let connections_per_address =
            self.read_optional(limits.connections_per_address.as_ref(), path, scalar::parse_count);
        let max_streams = self.read_optional(limits.max_streams.as_ref(), "limits.max_streams", scalar::parse_count);
        Some(LimitsConfig {
            request_body: request_body?,
            frame: frame?,
            client_buffer: client_buffer?,
            header_bytes: header_bytes?,
            headers: headers?.get(),
            head_timeout: head_timeout?,
            body_timeout: body_timeout?,
            idle_timeout: idle_timeout?,
            connections: connections?.get(),
            connections_per_address: connections_per_address?,
            max_streams: max_streams?,
        })
    }
}

fn position(location: Location) -> Option<SourcePosition> {
    SourcePosition::from_location(location)
}
