//! How a caller stands with the limits that were asked: the fields `RateLimit-Policy` and `RateLimit`
//! (draft-ietf-httpapi-ratelimit-headers-10), and what many clients read in place of them.

use crate::config::access::Quota;
use crate::config::field::{LEGACY_LIMIT, LEGACY_REMAINING, LEGACY_RESET, RATE_LIMIT, RATE_LIMIT_POLICY};
use crate::error::Rejection;
use http::{Extensions, HeaderName, HeaderValue};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

/// What a limit says of itself, written out once.
#[derive(Debug)]
pub struct Terms {
    /// the limit, by its name in the configuration
    pub name: Arc<str>,
    /// `"name"`
    item: String,
    /// `"name";q=60;w=60`
    policy: String,
    quota: u64,
}

impl Terms {
    /// Of a rate.
    pub fn rate(name: &Arc<str>, quota: Quota) -> Terms {
        let item = string(name);
        let requests = quota.requests.get();
        // "Subsecond precision is not supported"; the window is optional.
        let whole = quota.per.subsec_nanos() == 0;
        let window = if whole { format!(";w={}", quota.per.as_secs()) } else { String::new() };
        let policy = format!("{item};q={requests}{window}");
        Terms { name: Arc::clone(name), item, policy, quota: u64::from(requests) }
    }

    /// Of a number of runs at once.
    pub fn streams(name: &Arc<str>, most: NonZeroUsize) -> Terms {
        let item = string(name);
        let policy = format!("{item};q={most};qu=\"concurrent-requests\"");
        Terms { name: Arc::clone(name), item, policy, quota: most.get() as u64 }
    }
}

/// RFC 8941 §3.3.3: a String is printable ASCII in quotes, with `\` before quotes and itself.
fn string(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        ' '..='~' => c.to_string(),
        _ => "_".to_owned(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// How a request stands with one limit.
#[derive(Clone, Debug)]
pub struct Standing {
    /// the limit
    pub terms: Arc<Terms>,
    /// how many more may come at once; not known where the limit could not be asked
    pub remaining: Option<u32>,
    /// until something changes: where none remain, until one does; else until all do
    pub reset: Duration,
}

/// How a request stands with all limits that were asked so far. Among its extensions.
#[derive(Clone, Debug, Default)]
pub struct Standings {
    /// in the order of asking
    pub list: Vec<Standing>,
    /// whether `X-RateLimit-*` are wanted
    pub legacy: bool,
}

impl Standings {
    /// The fields that say so of a request whose extensions these are; none where no limit was asked.
    #[must_use]
    pub fn fields(of: &Extensions) -> Vec<(HeaderName, HeaderValue)> {
        of.get::<Standings>().map(Standings::written).unwrap_or_default()
    }

    /// A refusal that is answered with the fields.
    pub fn announce(&self, mut rejection: Rejection) -> Rejection {
        rejection.headers.extend(self.written());
        rejection
    }

    fn written(&self) -> Vec<(HeaderName, HeaderValue)> {
        let mut fields = Vec::new();
        let mut field = |name, value: String| {
            // Terms are ASCII.
            fields
                .extend(HeaderValue::try_from(value).ok().filter(|value| !value.is_empty()).map(|value| (name, value)));
        };
        let policies: Vec<&str> = self.list.iter().map(|one| &*one.terms.policy).collect();
        field(RATE_LIMIT_POLICY, policies.join(", "));
        let known = || self.list.iter().filter_map(|one| Some((one, one.remaining?)));
        let standing =
            |(one, remaining): (&Standing, u32)| format!("{};r={remaining};t={}", one.terms.item, seconds(one.reset));
        field(RATE_LIMIT, known().map(standing).collect::<Vec<_>>().join(", "));
        // There is room for one of them: the nearest to its end.
        let nearest = known().min_by_key(|(one, remaining)| (*remaining, std::cmp::Reverse(one.reset)));
        if let Some((one, remaining)) = nearest.filter(|_| self.legacy) {
            field(LEGACY_LIMIT, one.terms.quota.to_string());
            field(LEGACY_REMAINING, remaining.to_string());
            field(LEGACY_RESET, seconds(one.reset).to_string());
        }
        fields
    }
}

/// Whole seconds, rounded up: whoever waits that long has waited long enough.
pub fn seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}
