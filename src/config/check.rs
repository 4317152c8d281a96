//! From what the operator wrote to what the program runs on: puts variables in, reads each value, and collects every
//! problem instead of stopping at the first.
//!
//! A value that cannot be read is `None` from there on, and its problem has been noted; the pieces come together with
//! `?`, so that nothing is made up for it.

use serde_saphyr::Location;

use super::access::ApiKey;
use super::file::{self, File, KeyFile};
use super::listen::Listen;
use super::load::Source;
use super::problem::{Position, Problem};
use super::scalar;
use super::{Config, Limits};
use crate::dialect::Dialect;

mod access;
mod auth;
mod doubt;
mod kept;
mod listen;
mod own;
mod paths;
mod process;
mod rates;
mod reach;
mod replay;
mod route;
mod secret;
mod side;
mod upstream;
mod value;

pub(super) use reach::reach;
use value::{every, quoted, shown};

/// Checks `file`, which was read from `source`.
///
/// # Errors
/// Everything that is wrong with it. Else what is doubtful about it goes with the configuration.
pub(super) fn check(source: &Source<'_>, file: &File) -> Result<(Config, Vec<Problem>), Vec<Problem>> {
    let mut check = Check::new(source);
    let config = check.config(file);
    if let Some(config) = &config {
        check.doubts(file, config);
    }
    let mut warnings = std::mem::take(&mut check.warnings);
    warnings.sort_by_key(|warning| (warning.line.unwrap_or(u64::MAX), warning.column));
    check.end(config).map(|config| (config, warnings))
}

/// Checks the API keys of `file`, which was read from `source`.
pub(super) fn check_keys(source: &Source<'_>, file: &KeyFile) -> Result<Vec<ApiKey>, Vec<Problem>> {
    let mut check = Check::new(source);
    let keys = check.key_list(&file.keys);
    check.end(keys)
}

/// What routes name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Dialect,
    /// An issuer or a list of API keys.
    Method,
    RateLimit,
}

struct Check<'a> {
    source: Source<'a>,
    /// Dialects of this file.
    dialects: Vec<&'static Dialect>,
    /// Names of those that have mistakes, which were noted where they are.
    mistaken: Vec<String>,
    /// Where the data plane listens, as far as it could be read: no upstream may lead back there.
    own: Vec<Seen<Listen>>,
    /// Issuers and lists of API keys, for routes to name.
    methods: Vec<auth::Method>,
    /// Rate limits, for routes to name; in the order of the file.
    policies: Vec<rates::Known>,
    /// Of which things some have no name that could be read: any other name may be theirs.
    unnamed: Vec<Named>,
    problems: Vec<Problem>,
    /// What is no mistake and probably not meant.
    warnings: Vec<Problem>,
}

impl<'a> Check<'a> {
    fn new(source: &Source<'a>) -> Check<'a> {
        let (dialects, mistaken, own) = (Vec::new(), Vec::new(), Vec::new());
        let (methods, policies, unnamed, problems) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let warnings = Vec::new();
        Check { source: *source, dialects, mistaken, own, methods, policies, unnamed, problems, warnings }
    }

    fn end<T>(self, read: Option<T>) -> Result<T, Vec<Problem>> {
        match read {
            Some(read) if self.problems.is_empty() => Ok(read),
            _ => Err(self.problems),
        }
    }

    /// Whether what stands at `path` was left out, since it could not be read: that has been noted.
    fn is_lost(&self, path: &str) -> bool {
        let rest = |lost: &String| {
            path.strip_prefix(lost.as_str()).map(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.source.lost.iter().any(|lost| rest(lost) == Some(true))
    }
}

/// A scalar with its variables put in, on its way to becoming a value.
struct Scalar {
    text: String,
    /// How messages name it: as it was written, so never with what came from a variable.
    shown: String,
    substituted: bool,
}

/// A value and where it was written.
#[derive(Clone)]
struct Seen<T> {
    value: T,
    path: String,
    position: Option<Position>,
}

impl<T> Seen<T> {
    /// A wrong value is shown where it is defined; two of the same are told apart by where they are used.
    fn new(value: T, path: &str, used: Location) -> Seen<T> {
        Seen { value, path: path.to_owned(), position: position(used) }
    }

    fn place(&self) -> String {
        match self.position {
            Some(position) => format!("{} ({position})", self.path),
            None => format!("the default of {}", self.path),
        }
    }
}

impl Check<'_> {
    fn config(&mut self, file: &File) -> Option<Config> {
        let trusted_proxies = self.trusted_proxies(&file.trusted_proxies);
        let listeners = self.listeners(&file.listeners, trusted_proxies.as_ref());
        let replay = self.replay(&file.replay, file.redis.is_some() || self.is_lost("redis"));
        let limits = self.limits(&file.limits);
        let keep_alive = self.value(&file.keep_alive, "keep_alive", scalar::duration);
        let process = self.process(file);
        let auth = self.auth(&file.auth);
        let rate_limits = self.rate_limits(file);
        self.dialects(&file.dialects);
        let routes = self.routes(&file.routes);
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

    fn limits(&mut self, limits: &file::Limits) -> Option<Limits> {
        let request_body = self.value(&limits.request_body, "limits.request_body", scalar::size);
        let frame = self.value(&limits.frame, "limits.frame", scalar::size);
        let client_buffer = self.value(&limits.client_buffer, "limits.client_buffer", scalar::size);
        let header_bytes = self.value(&limits.header_bytes, "limits.header_bytes", scalar::head_size);
        let headers = self.value(&limits.headers, "limits.headers", scalar::count);
        let head_timeout = self.value(&limits.head_timeout, "limits.head_timeout", scalar::duration);
        let body_timeout = self.value(&limits.body_timeout, "limits.body_timeout", scalar::duration);
        let idle_timeout = self.value(&limits.idle_timeout, "limits.idle_timeout", scalar::duration);
        let connections = self.value(&limits.connections, "limits.connections", scalar::count);
        let path = "limits.connections_per_address";
        let connections_per_address = self.optional(limits.connections_per_address.as_ref(), path, scalar::count);
        let max_streams = self.optional(limits.max_streams.as_ref(), "limits.max_streams", scalar::count);
        Some(Limits {
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

fn position(location: Location) -> Option<Position> {
    Position::of(location)
}
