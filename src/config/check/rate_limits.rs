//! Checks rate limits, and the Redis server through which replicas share them.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::config::access::{RateLimitKey, RateLimitPolicy, RateLimitQuota, RedisConfig, Secret};
use crate::config::checker::{ConfigChecker, Place, RateLimitRef, ReferenceKind};
use crate::config::file::{RateLimitSpec, RedisSpec, TierSpec};
use crate::config::kind;
use crate::config::section::{FileValue, KeysOf, Section, collect_all};
use crate::config::text::{Scalar, Spanned};

/// Maximum time to refill a full burst.
const MAX_REFILL: Duration = Duration::from_secs(366 * 24 * 3600);

/// The shortest measurable interval between requests.
const MIN_INTERVAL: Duration = Duration::from_micros(1);

impl FileValue for RateLimitSpec {
    type Checked = RateLimitPolicy;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<RateLimitPolicy> {
        let keys = self.check_keys(checker, at);
        let quota = build_quota(keys.requests, keys.per, keys.burst, None);
        let quota = quota.filter(|quota| checker.check_quota(*quota, self.requests.as_ref(), self.burst.as_ref(), at));
        // A tier inherits an explicit burst, but not the default, which is derived from `requests`.
        let inherited = self.burst.as_ref().and(quota).map(|quota| quota.burst);
        let tiers = keys.tiers.unwrap_or_default().into_iter().zip(self.tiers.values());
        let tiers = collect_all(tiers.map(|((name, tier), written)| {
            let at = at.key("tiers").key(&name).with_position_of(written);
            let TierSpec { requests, burst } = &written.value;
            let quota = build_quota(tier.requests, keys.per, tier.burst, inherited)?;
            checker.check_quota(quota, requests.as_ref(), burst.as_ref(), &at).then_some((name, quota))
        }));
        if keys.shared == Some(true) && !checker.has_redis {
            let hint = "add `redis: {url: \"redis://127.0.0.1:6379/0\"}`, or remove `shared` to count in each replica";
            let message = "this rate limit is shared through Redis, but `redis` is not configured";
            checker.report_error(&at.value_of("shared", &self.shared), message, hint);
        }
        let caller_dependency = match &keys.key {
            Some(RateLimitKey::Tenant) => Some("counts by tenant"),
            Some(RateLimitKey::Claim(_)) => Some("counts by a claim"),
            _ if !self.tiers.is_empty() => Some("has tiers"),
            _ => None,
        };
        if keys.name.is_none() {
            checker.kinds_with_unnamed.push(ReferenceKind::RateLimit);
        }
        checker.policies.push(RateLimitRef { name: keys.name.clone(), caller_dependency });
        Some(RateLimitPolicy { name: keys.name?, key: keys.key?, quota: quota?, tiers: tiers?, shared: keys.shared? })
    }
}

impl FileValue for TierSpec {
    /// The checked keys. Whether they form a valid quota depends on the rate limit.
    type Checked = KeysOf<TierSpec>;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<KeysOf<TierSpec>> {
        Some(self.check_keys(checker, at))
    }
}

/// Builds a quota. `burst` defaults to `inherited`, or else to `requests`.
fn build_quota(
    requests: Option<NonZeroU32>,
    per: Option<Duration>,
    burst: Option<Option<NonZeroU32>>,
    inherited: Option<NonZeroU32>,
) -> Option<RateLimitQuota> {
    let requests = requests?;
    Some(RateLimitQuota { requests, per: per?, burst: burst?.or(inherited).unwrap_or(requests) })
}

impl ConfigChecker<'_> {
    fn check_quota(
        &mut self,
        quota: RateLimitQuota,
        requests: Option<&Scalar<kind::RequestCount>>,
        burst: Option<&Scalar<kind::RequestCount>>,
        at: &Place,
    ) -> bool {
        let Some(requests) = requests else { return true };
        let interval = quota.per / quota.requests.get();
        if interval < MIN_INTERVAL {
            let hint = "write at most 1000000 requests per second";
            let place = at.value_of("requests", requests);
            self.report_error(&place, "this is more than one request per microsecond", hint);
            return false;
        }
        let refills = interval.as_nanos() * u128::from(quota.burst.get()) <= MAX_REFILL.as_nanos();
        if !refills {
            let place = at.key("burst").with_position_of(burst.unwrap_or(requests));
            let hint = "write a smaller `burst`, more `requests`, or a shorter `per`";
            self.report_error(&place, "this burst takes more than a year to refill", hint);
        }
        refills
    }

    pub(super) fn check_limit_names(&mut self, limits: &[Spanned<RateLimitSpec>]) {
        let names = limits.iter().enumerate().filter_map(|(index, limit)| {
            self.locate(limit.value.name.as_ref(), &Place::new("rate_limits").index(index).key("name"))
        });
        let names: Vec<_> = names.collect();
        self.report_duplicates(&names, "this name is already used by", "give each rate limit a unique name");
    }

    fn check_password(&mut self, content: Vec<u8>, at: &Place) -> Option<String> {
        let password = String::from_utf8(content).ok().map(|text| text.trim_end().to_owned());
        let password = password.filter(|text| !text.is_empty() && !text.chars().any(char::is_control));
        if password.is_none() {
            let hint = "write only the password, on the first line of the file";
            self.report_error(at, "the file contains no password", hint);
        }
        password
    }
}

impl FileValue for RedisSpec {
    type Checked = RedisConfig;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<RedisConfig> {
        let keys = self.check_keys(checker, at);
        let mut url = keys.url;
        if let (Some(Some(file)), Some(written)) = (&keys.password_file, &self.password_file) {
            let place = at.value_of("password_file", written);
            let content = checker.read_file(file, &place);
            let password = content.and_then(|content| checker.check_password(content, &place));
            if url.as_ref().is_some_and(|url| url.has_password()) {
                let hint = "keep the file and remove the password from `url`";
                checker.report_error(&place, "`url` also contains a password", hint);
            }
            url = url.zip(password).map(|(url, password)| url.with_password(&password));
        }
        let url = url?;
        Some(RedisConfig {
            display_url: url.to_redacted_url(),
            url: Secret::new(url.to_url()),
            prefix: keys.prefix?,
            deadline: keys.deadline?,
            on_error: keys.on_error?,
        })
    }
}
