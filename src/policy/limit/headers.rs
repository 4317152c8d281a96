//! The response fields `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10), and the older
//! `X-RateLimit-*`.

use crate::config::access::RateLimitQuota;
use crate::config::header_names::{LEGACY_LIMIT, LEGACY_REMAINING, LEGACY_RESET, RATE_LIMIT, RATE_LIMIT_POLICY};
use crate::error::Rejection;
use http::{Extensions, HeaderName, HeaderValue};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

/// The constant parts of a limit's header fields, formatted once.
pub(crate) struct LimitDescriptor {
    pub(crate) name: Arc<str>,
    /// `"name"`
    item: String,
    /// `"name";q=60;w=60`
    policy: String,
    quota: u64,
}

impl LimitDescriptor {
    pub(crate) fn for_rate(name: &Arc<str>, quota: RateLimitQuota) -> LimitDescriptor {
        let item = quote_string(name);
        let requests = quota.requests.get();
        // "Subsecond precision is not supported"; the window is optional.
        let whole = quota.per.subsec_nanos() == 0;
        let window = if whole { format!(";w={}", quota.per.as_secs()) } else { String::new() };
        let policy = format!("{item};q={requests}{window}");
        LimitDescriptor { name: Arc::clone(name), item, policy, quota: u64::from(requests) }
    }

    pub(crate) fn for_streams(name: &Arc<str>, most: NonZeroUsize) -> LimitDescriptor {
        let item = quote_string(name);
        let policy = format!("{item};q={most};qu=\"concurrent-requests\"");
        LimitDescriptor { name: Arc::clone(name), item, policy, quota: most.get() as u64 }
    }
}

/// Formats a String (RFC 8941 §3.3.3): quoted printable ASCII, with `\` before quotes and backslashes.
fn quote_string(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        ' '..='~' => c.to_string(),
        _ => "_".to_owned(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

#[derive(Clone)]
pub(crate) struct LimitStatus {
    pub(crate) descriptor: Arc<LimitDescriptor>,
    /// requests left; `None` if the limit could not be checked
    pub(crate) remaining: Option<u32>,
    /// time until the quota is full again or, if no requests are left, until the next one is allowed
    pub(crate) reset: Duration,
}

/// The states of all limits checked so far, stored as a request extension.
#[derive(Clone, Default)]
pub(crate) struct RateLimitHeaders {
    pub(crate) statuses: Vec<LimitStatus>,
    /// whether to also send `X-RateLimit-*`
    pub(crate) x_ratelimit: bool,
}

impl RateLimitHeaders {
    /// Returns the header fields, or none if no limit was checked.
    pub(crate) fn fields_from(extensions: &Extensions) -> Vec<(HeaderName, HeaderValue)> {
        extensions.get::<RateLimitHeaders>().map(RateLimitHeaders::to_fields).unwrap_or_default()
    }

    pub(crate) fn add_to(&self, mut rejection: Rejection) -> Rejection {
        rejection.headers.extend(self.to_fields());
        rejection
    }

    fn to_fields(&self) -> Vec<(HeaderName, HeaderValue)> {
        let mut fields = Vec::new();
        let mut field = |name, value: String| {
            // Descriptors are ASCII.
            fields
                .extend(HeaderValue::try_from(value).ok().filter(|value| !value.is_empty()).map(|value| (name, value)));
        };
        let policies: Vec<&str> = self.statuses.iter().map(|one| &*one.descriptor.policy).collect();
        field(RATE_LIMIT_POLICY, policies.join(", "));
        let known = || self.statuses.iter().filter_map(|one| Some((one, one.remaining?)));
        let item = |(one, remaining): (&LimitStatus, u32)| {
            format!("{};r={remaining};t={}", one.descriptor.item, ceil_seconds(one.reset))
        };
        field(RATE_LIMIT, known().map(item).collect::<Vec<_>>().join(", "));
        // These fields can describe only one limit: the one with the fewest requests remaining.
        let nearest = known().min_by_key(|(one, remaining)| (*remaining, std::cmp::Reverse(one.reset)));
        if let Some((one, remaining)) = nearest.filter(|_| self.x_ratelimit) {
            field(LEGACY_LIMIT, one.descriptor.quota.to_string());
            field(LEGACY_REMAINING, remaining.to_string());
            field(LEGACY_RESET, ceil_seconds(one.reset).to_string());
        }
        fields
    }
}

/// Rounds up to whole seconds, so that clients never retry too early.
pub(crate) fn ceil_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}
