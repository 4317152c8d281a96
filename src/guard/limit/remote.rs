//! Quotas that replicas count together, in Redis.

use crate::config::access::RateLimitQuota;
use crate::net::redis_client::{RedisClient, RedisQueryFailed};
use redis::Script;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Counts in Redis.
pub(crate) struct RemoteLimiter {
    redis: Arc<RedisClient>,
    script: Script,
}

/// One quota that a request is counted against.
#[derive(Debug)]
pub(crate) struct RemoteCheck {
    /// behind the prefix of all keys
    pub(crate) name: String,
    /// how often
    pub(crate) quota: RateLimitQuota,
}

/// How many more may come at once, or how long to wait.
pub(crate) type QuotaVerdict = Result<u32, Duration>;

impl RemoteLimiter {
    /// Counts over this connection.
    pub(crate) fn new(redis: Arc<RedisClient>) -> RemoteLimiter {
        RemoteLimiter { redis, script: Script::new(include_str!("gcra.lua")) }
    }

    /// Counts a request against all of these quotas, or, when one refuses it, against none: in one round trip, and without
    /// anything happening in between.
    ///
    /// # Errors
    /// [`Away`] when there is no answer in time. It may have been counted then.
    pub(crate) async fn take(&self, checks: &[RemoteCheck]) -> Result<Vec<QuotaVerdict>, RedisQueryFailed> {
        let mut call = self.script.prepare_invoke();
        for RemoteCheck { name, quota } in checks {
            let interval = quota.per.as_secs_f64() * 1e6 / f64::from(quota.requests.get());
            call.key(format!("{}{name}", self.redis.prefix())).arg(interval).arg(quota.burst.get());
        }
        let ask = |mut connection| async move { call.invoke_async::<Vec<i64>>(&mut connection).await };
        let answer = self.redis.query(ask).await?;
        let verdict = |pair: &[i64]| match *pair {
            [remaining, 0] => Ok(u32::try_from(remaining).unwrap_or(u32::MAX)),
            [_, wait] => Err(Duration::from_micros(wait.unsigned_abs())),
            _ => Ok(0),
        };
        Ok(answer.chunks(2).map(verdict).collect())
    }
}

impl fmt::Debug for RemoteLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.redis.fmt(f)
    }
}
