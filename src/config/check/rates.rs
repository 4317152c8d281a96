//! How often callers may call: rate limits, and where replicas count together.

use super::Check;
use crate::config::access::RateLimits;
use crate::config::file::File;

impl Check<'_> {
    pub(super) fn rate_limits(&mut self, _file: &File) -> Option<RateLimits> {
        Some(RateLimits::default())
    }
}
