//! How a caller stands with the limits that were asked: the fields `RateLimit-Policy` and `RateLimit`
//! (draft-ietf-httpapi-ratelimit-headers-10), and what many clients read in place of them.

use crate::config::access::RateLimitQuota;
use crate::config::header_names::{LEGACY_LIMIT, LEGACY_REMAINING, LEGACY_RESET, RATE_LIMIT, RATE_LIMIT_POLICY};
use crate::error::Rejection;
use http::{Extensions, HeaderName, HeaderValue};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

/// What a limit says of itself, written out once.
#[derive(Debug)]
pub(crate) struct LimitDescriptor {
    /// the limit, by its name in the configuration
    pub(crate) name: Arc<str>,
    /// `"name"`
    item: String,
    /// `"name";q=60;w=60`
    policy: String,
    quota: u64,
}

impl LimitDescriptor {
    /// Of a rate.
    pub(crate) fn for_rate(name: &Arc<str>, quota: RateLimitQuota) -> LimitDescriptor {
        let item = quote_string(name);
        let requests = quota.requests.get();
        // "Subsecond precision is not supported"; the window is optional.
        let whole = quota.per.subsec_nanos() == 0;
        let window = if whole { format!(";w={}", quota.per.as_secs()) } else { String::new() };
        let policy = format!("{item};q={requests}{window}");
        LimitDescriptor { name: Arc::clone(name), item, policy, quota: u64::from(requests) }
    }

    /// Of a number of runs at once.
    pub(crate) fn for_streams(name: &Arc<str>, most: NonZeroUsize) -> LimitDescriptor {
        let item = quote_string(name);
        let policy = format!("{item};q={most};qu=\"concurrent-requests\"");
        LimitDescriptor { name: Arc::clone(name), item, policy, quota: most.get() as u64 }
    }
}

/// RFC 8941 §3.3.3: a String is printable ASCII in quotes, with `\` before quotes and itself.
fn quote_string(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        ' '..='~' => c.to_string(),
        _ => "_".to_owned(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// How a request stands with one limit.
#[derive(Clone, Debug)]
pub(crate) struct LimitStatus {
    /// the limit
    pub(crate) descriptor: Arc<LimitDescriptor>,
    /// how many more may come at once; not known where the limit could not be asked
    pub(crate) remaining: Option<u32>,
    /// until something changes: where none remain, until one does; else until all do
    pub(crate) reset: Duration,
}

/// How a request stands with all limits that were asked so far. Among its extensions.
#[derive(Clone, Debug, Default)]
pub(crate) struct RateLimitHeaders {
    /// in the order of asking
    pub(crate) statuses: Vec<LimitStatus>,
    /// whether `X-RateLimit-*` are wanted
    pub(crate) x_ratelimit: bool,
}

impl RateLimitHeaders {
    /// The fields that say so of a request whose extensions these are; none where no limit was asked.
    #[must_use]
    pub(crate) fn fields_from(extensions: &Extensions) -> Vec<(HeaderName, HeaderValue)> {
        extensions.get::<RateLimitHeaders>().map(RateLimitHeaders::to_fields).unwrap_or_default()
    }

    /// A refusal that is answered with the fields.
    pub(crate) fn add_to(&self, mut rejection: Rejection) -> Rejection {
        rejection.headers.extend(self.to_fields());
        rejection
    }

    fn to_fields(&self) -> Vec<(HeaderName, HeaderValue)> {
        let mut fields = Vec::new();
        let mut field = |name, value: String| {
            // Terms are ASCII.
            fields
                .extend(HeaderValue::try_from(value).ok().filter(|value| !value.is_empty()).map(|value| (name, value)));
        };
        let policies: Vec<&str> = self.statuses.iter().map(|one| &*one.descriptor.policy).collect();
        field(RATE_LIMIT_POLICY, policies.join(", "));
        let known = || self.statuses.iter().filter_map(|one| Some((one, one.remaining?)));
        let standing = |(one, remaining): (&LimitStatus, u32)| {
            format!("{};r={remaining};t={}", one.descriptor.item, ceil_seconds(one.reset))
        };
        field(RATE_LIMIT, known().map(standing).collect::<Vec<_>>().join(", "));
        // There is room for one of them: the nearest to its end.
        let nearest = known().min_by_key(|(one, remaining)| (*remaining, std::cmp::Reverse(one.reset)));
        if let Some((one, remaining)) = nearest.filter(|_| self.x_ratelimit) {
            field(LEGACY_LIMIT, one.descriptor.quota.to_string());
            field(LEGACY_REMAINING, remaining.to_string());
            field(LEGACY_RESET, ceil_seconds(one.reset).to_string());
        }
        fields
    }
}

/// Whole seconds, rounded up: whoever waits that long has waited long enough.
pub(crate) fn ceil_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}
