//! Checks rate limits, and the Redis through which replicas share them.

use std::num::NonZeroU32;
use std::time::Duration;

use super::{ConfigChecker, LocatedValue, ReferenceKind, position};
use crate::config::access::{RateLimitKey, RateLimitPolicy, RateLimitQuota, RateLimitsConfig, RedisConfig, Secret};
use crate::config::file::{self, ConfigFile, Scalar};
use crate::config::schema::kind;
use crate::config::{enum_values, scalar};

/// A rate limit, as routes see it.
pub(super) struct RateLimitRef {
    /// `None` if the name is invalid; the problem is already reported.
    pub(super) name: Option<String>,
    /// The part of it that depends on the caller's identity.
    pub(super) caller_dependency: Option<&'static str>,
}

impl ConfigChecker<'_> {
    pub(super) fn check_rate_limits(&mut self, file: &ConfigFile) -> Option<RateLimitsConfig> {
        let legacy_headers = self.read_bool(&file.limits.legacy_headers, "limits.legacy_headers");
        let redis = file.redis.as_ref().map(|redis| self.check_redis(redis));
        let mut names = Vec::new();
        let mut policies = Vec::new();
        for (index, written) in file.rate_limits.iter().enumerate() {
            let at = format!("rate_limits[{index}]");
            policies.push(self.check_policy(written, &at, &mut names));
        }
        if self.is_skipped("rate_limits") || self.policies.iter().any(|known| known.name.is_none()) {
            self.kinds_with_unnamed.push(ReferenceKind::RateLimit);
        }
        let is_alone = file.redis.is_none() && !self.is_skipped("redis");
        let alone = file.rate_limits.iter().enumerate().filter(|_| is_alone);
        for (index, limit) in alone.filter(|(_, limit)| limit.value.shared.value.trim() == "true") {
            let hint = "add `redis: {url: \"redis://127.0.0.1:6379/0\"}`, or remove `shared` to count in each replica";
            let message = "this rate limit is shared through Redis, but `redis` is not configured";
            self.report_error(
                &format!("rate_limits[{index}].shared"),
                position(limit.value.shared.defined),
                message,
                hint,
            );
        }
        let all: Vec<&LocatedValue<String>> = names.iter().collect();
        let hint = "give each rate limit a unique name";
        self.report_duplicates(&all, |one, other| one == other, "this name is already used by", hint);
        Some(RateLimitsConfig {
            policies: policies.into_iter().collect::<Option<_>>()?,
            legacy_headers: legacy_headers?,
            redis: match redis {
                Some(redis) => Some(redis?),
                None => None,
            },
        })
    }

    fn check_policy(
        &mut self,
        written: &file::Spanned<file::RateLimitSpec>,
        at: &str,
        names: &mut Vec<LocatedValue<String>>,
    ) -> Option<RateLimitPolicy> {
        let limit = &written.value;
        let whole = position(written.defined);
        let name = self.require_key(
            limit.name.as_ref(),
            at,
            "name",
            "the name that routes use, such as `name: standard`",
            whole,
        );
        let name = name.and_then(|name| self.read_located(name, &format!("{at}.name"), scalar::parse_name));
        names.extend(name.clone());
        let key = self.read_value(&limit.key, &format!("{at}.key"), scalar::parse_rate_limit_key);
        let per = self.read_value(&limit.per, &format!("{at}.per"), scalar::parse_period);
        let quota = self.check_quota((limit.requests.as_ref(), limit.burst.as_ref()), None, per, at, whole);
        // A burst that was written is meant: a tier that comes back faster is no leave to send a minute's worth at once.
        let burst = limit.burst.as_ref().and(quota).map(|quota| quota.burst);
        let mut tiers = Vec::new();
        for (tier, quota) in &limit.tiers {
            let at = format!("{at}.tiers.{tier}");
            let (whole, quota) = (position(quota.defined), &quota.value);
            tiers.push(
                self.check_quota((quota.requests.as_ref(), quota.burst.as_ref()), burst, per, &at, whole)
                    .map(|quota| (tier.clone(), quota)),
            );
        }
        let shared = self.read_bool(&limit.shared, &format!("{at}.shared"));
        let needs = match &key {
            Some(RateLimitKey::Tenant) => Some("counts by tenant"),
            Some(RateLimitKey::Claim(_)) => Some("counts by a claim"),
            _ if !tiers.is_empty() => Some("has tiers"),
            _ => None,
        };
        self.policies
            .push(RateLimitRef { name: name.as_ref().map(|name| name.value.clone()), caller_dependency: needs });
        let tiers = tiers.into_iter().collect::<Option<_>>();
        Some(RateLimitPolicy { name: name?.value, key: key?, quota: quota?, tiers: tiers?, shared: shared? })
    }

    /// A quota, with the burst that it has when none is written: `requests` where there is no `inherited` one.
    fn check_quota(
        &mut self,
        (requests, burst): (Option<&Scalar<kind::Count>>, Option<&Scalar<kind::Count>>),
        inherited: Option<NonZeroU32>,
        per: Option<Duration>,
        at: &str,
        whole: Option<super::SourcePosition>,
    ) -> Option<RateLimitQuota> {
        /// The longest that a quota may take to come back after all of its burst.
        const MAX_REFILL: Duration = Duration::from_secs(366 * 24 * 3600);
        /// The shortest time between two requests that can be counted.
        const MIN_INTERVAL: Duration = Duration::from_micros(1);
        let example = "the number of requests allowed in each `per`, such as `requests: 60`";
        let written = self.require_key(requests, at, "requests", example, whole);
        let requests =
            written.and_then(|text| self.read_value(text, &format!("{at}.requests"), scalar::parse_request_count));
        let more = burst.map(|text| self.read_value(text, &format!("{at}.burst"), scalar::parse_request_count));
        let (requests, per): (NonZeroU32, Duration) = (requests?, per?);
        let place = position(written?.defined);
        let each = per / requests.get();
        if each < MIN_INTERVAL {
            let hint = "write at most 1000000 requests per second";
            self.report_error(&format!("{at}.requests"), place, "this is more than one request per microsecond", hint);
            return None;
        }
        let size = match more {
            Some(burst) => burst?,
            None => inherited.unwrap_or(requests),
        };
        if each.as_nanos() * u128::from(size.get()) > MAX_REFILL.as_nanos() {
            let place = burst.map_or(place, |burst| position(burst.defined));
            let hint = "write a smaller `burst`, more `requests`, or a shorter `per`";
            self.report_error(&format!("{at}.burst"), place, "this burst takes more than a year to refill", hint);
            return None;
        }
        Some(RateLimitQuota { requests, per, burst: size })
    }

    fn check_redis(&mut self, written: &file::Spanned<file::RedisSpec>) -> Option<RedisConfig> {
        let redis = &written.value;
        let example = "the URL of the server, such as `url: redis://127.0.0.1:6379/0`";
        let url = self.require_key(redis.url.as_ref(), "redis", "url", example, position(written.defined));
        let url = url.and_then(|url| self.parse_secret(url, "redis.url", scalar::parse_redis));
        let password = redis.password_file.as_ref().map(|file| self.read_password(file));
        let prefix = self.read_value(&redis.prefix, "redis.prefix", scalar::parse_word);
        let deadline = self.read_value(&redis.deadline, "redis.deadline", scalar::parse_deadline);
        let on_error = self.read_choice(&redis.on_error, "redis.on_error", enum_values::ON_ERROR);
        if let (Some(url), Some(file)) = (&url, &redis.password_file)
            && url.has_password()
        {
            let hint = "keep the file and remove the password from `url`";
            self.report_error("redis.password_file", position(file.defined), "`url` also contains a password", hint);
        }
        let url = match password {
            Some(password) => url?.with_password(&password?),
            None => url?,
        };
        Some(RedisConfig {
            display_url: url.to_redacted_url(),
            url: Secret::new(url.to_url()),
            prefix: prefix?,
            deadline: deadline?,
            on_error: on_error?,
        })
    }

    fn read_password(&mut self, file: &Scalar<kind::FileName>) -> Option<String> {
        let (_, bytes) = self.read_named_file(file, "redis.password_file")?;
        let password = String::from_utf8(bytes).ok().map(|text| text.trim_end().to_owned());
        let password = password.filter(|text| !text.is_empty() && !text.chars().any(char::is_control));
        if password.is_none() {
            let hint = "write only the password, on the first line of the file";
            self.report_error("redis.password_file", position(file.defined), "the file contains no password", hint);
        }
        password
    }

    /// `true` or `false`.
    pub(super) fn read_bool(&mut self, written: &Scalar<kind::Truth>, path: &str) -> Option<bool> {
        self.read_choice(written, path, enum_values::BOOLEAN)
    }
}
