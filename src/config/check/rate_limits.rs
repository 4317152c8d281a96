//! How often callers may call: rate limits, and where replicas count together.

use std::num::NonZeroU32;
use std::time::Duration;

use serde_saphyr::Spanned;

use super::{Check, Named, Seen, position};
use crate::config::access::{Policy, PolicyKey, Quota, RateLimits, Redis, Secret};
use crate::config::file::{self, File, Text};
use crate::config::{scalar, words};

/// A rate limit, as routes see it.
pub(super) struct Known {
    /// `None` where it could not be read, which was noted there.
    pub(super) name: Option<String>,
    /// What of it has to know who calls.
    pub(super) needs: Option<&'static str>,
}

impl Check<'_> {
    pub(super) fn rate_limits(&mut self, file: &File) -> Option<RateLimits> {
        let legacy_headers = self.truth(&file.limits.legacy_headers, "limits.legacy_headers");
        let redis = file.redis.as_ref().map(|redis| self.redis(redis));
        let mut names = Vec::new();
        let mut policies = Vec::new();
        for (index, written) in file.rate_limits.iter().enumerate() {
            let at = format!("rate_limits[{index}]");
            policies.push(self.policy(written, &at, &mut names));
        }
        if self.is_lost("rate_limits") || self.policies.iter().any(|known| known.name.is_none()) {
            self.unnamed.push(Named::RateLimit);
        }
        let is_alone = file.redis.is_none() && !self.is_lost("redis");
        let alone = file.rate_limits.iter().enumerate().filter(|_| is_alone);
        for (index, limit) in alone.filter(|(_, limit)| limit.value.shared.value.trim() == "true") {
            let hint = "add `redis: {url: \"redis://127.0.0.1:6379/0\"}`, or let each replica count by itself";
            let message = "replicas count together in `redis`, and there is none";
            self.note(&format!("rate_limits[{index}].shared"), position(limit.value.shared.defined), message, hint);
        }
        let all: Vec<&Seen<String>> = names.iter().collect();
        let hint = "give each rate limit a name of its own";
        self.distinct(&all, |one, other| one == other, "this name is already taken by", hint);
        Some(RateLimits {
            policies: policies.into_iter().collect::<Option<_>>()?,
            legacy_headers: legacy_headers?,
            redis: match redis {
                Some(redis) => Some(redis?),
                None => None,
            },
        })
    }

    fn policy(
        &mut self,
        written: &Spanned<file::RateLimit>,
        at: &str,
        names: &mut Vec<Seen<String>>,
    ) -> Option<Policy> {
        let limit = &written.value;
        let whole = position(written.defined);
        let name = self.needed(limit.name.as_ref(), at, "name", "what routes call it, such as `name: standard`", whole);
        let name = name.and_then(|name| self.seen(name, &format!("{at}.name"), scalar::name));
        names.extend(name.clone());
        let key = self.value(&limit.key, &format!("{at}.key"), scalar::policy_key);
        let per = self.value(&limit.per, &format!("{at}.per"), scalar::period);
        let quota = self.quota((limit.requests.as_ref(), limit.burst.as_ref()), None, per, at, whole);
        // A burst that was written is meant: a tier that comes back faster is no leave to send a minute's worth at once.
        let burst = limit.burst.as_ref().and(quota).map(|quota| quota.burst);
        let mut tiers = Vec::new();
        for (tier, quota) in &limit.tiers {
            let at = format!("{at}.tiers.{tier}");
            let (whole, quota) = (position(quota.defined), &quota.value);
            tiers.push(
                self.quota((quota.requests.as_ref(), quota.burst.as_ref()), burst, per, &at, whole)
                    .map(|quota| (tier.clone(), quota)),
            );
        }
        let shared = self.truth(&limit.shared, &format!("{at}.shared"));
        let needs = match &key {
            Some(PolicyKey::Tenant) => Some("counts by tenant"),
            Some(PolicyKey::Claim(_)) => Some("counts by a claim"),
            _ if !tiers.is_empty() => Some("has tiers"),
            _ => None,
        };
        self.policies.push(Known { name: name.as_ref().map(|name| name.value.clone()), needs });
        let tiers = tiers.into_iter().collect::<Option<_>>();
        Some(Policy { name: name?.value, key: key?, quota: quota?, tiers: tiers?, shared: shared? })
    }

    /// A quota, with the burst that it has when none is written: `requests` where there is no `inherited` one.
    fn quota(
        &mut self,
        (requests, burst): (Option<&Text>, Option<&Text>),
        inherited: Option<NonZeroU32>,
        per: Option<Duration>,
        at: &str,
        whole: Option<super::Position>,
    ) -> Option<Quota> {
        /// The longest that a quota may take to come back after all of its burst.
        const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
        /// The shortest time between two requests that can be counted.
        const SHORTEST: Duration = Duration::from_micros(1);
        let example = "how many come back in `per`, such as `requests: 60`";
        let written = self.needed(requests, at, "requests", example, whole);
        let requests = written.and_then(|text| self.value(text, &format!("{at}.requests"), scalar::requests));
        let more = burst.map(|text| self.value(text, &format!("{at}.burst"), scalar::requests));
        let (requests, per): (NonZeroU32, Duration) = (requests?, per?);
        let place = position(written?.defined);
        let each = per / requests.get();
        if each < SHORTEST {
            let hint = "write at most 1000000 requests for each second of `per`";
            self.note(&format!("{at}.requests"), place, "this is more than a request in each microsecond", hint);
            return None;
        }
        let size = match more {
            Some(burst) => burst?,
            None => inherited.unwrap_or(requests),
        };
        if each.as_nanos() * u128::from(size.get()) > LONGEST.as_nanos() {
            let place = burst.map_or(place, |burst| position(burst.defined));
            let hint = "write a smaller `burst`, more `requests`, or a shorter `per`";
            self.note(&format!("{at}.burst"), place, "this burst takes more than a year to come back", hint);
            return None;
        }
        Some(Quota { requests, per, burst: size })
    }

    fn redis(&mut self, written: &Spanned<file::Redis>) -> Option<Redis> {
        let redis = &written.value;
        let example = "where it is, such as `url: redis://127.0.0.1:6379/0`";
        let url = self.needed(redis.url.as_ref(), "redis", "url", example, position(written.defined));
        let url = url.and_then(|url| self.secret_value(url, "redis.url", scalar::redis));
        let password = redis.password_file.as_ref().map(|file| self.password(file));
        let prefix = self.value(&redis.prefix, "redis.prefix", scalar::word);
        let deadline = self.value(&redis.deadline, "redis.deadline", scalar::deadline);
        let on_error = self.choice(&redis.on_error, "redis.on_error", words::ON_ERROR);
        if let (Some(url), Some(file)) = (&url, &redis.password_file)
            && url.has_password()
        {
            let hint = "keep the file, and take the password out of `url`";
            self.note("redis.password_file", position(file.defined), "`url` has a password as well", hint);
        }
        let url = match password {
            Some(password) => url?.with_password(&password?),
            None => url?,
        };
        Some(Redis {
            shown: url.shown(),
            url: Secret::new(url.whole()),
            prefix: prefix?,
            deadline: deadline?,
            on_error: on_error?,
        })
    }

    fn password(&mut self, file: &Text) -> Option<String> {
        let (_, bytes) = self.file(file, "redis.password_file")?;
        let password = String::from_utf8(bytes).ok().map(|text| text.trim_end().to_owned());
        let password = password.filter(|text| !text.is_empty() && !text.chars().any(char::is_control));
        if password.is_none() {
            let hint = "put the password alone on the first line of the file";
            self.note("redis.password_file", position(file.defined), "the file holds no password", hint);
        }
        password
    }

    /// `true` or `false`.
    pub(super) fn truth(&mut self, written: &Text, path: &str) -> Option<bool> {
        self.choice(written, path, words::TRUTH)
    }
}
