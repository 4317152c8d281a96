//! Quotas that all replicas share through Redis.

use crate::config::access::RateLimitQuota;
use crate::net::redis_client::{RedisClient, RedisQueryFailed};
use redis::Script;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct RemoteLimiter {
    redis: Arc<RedisClient>,
    script: Script,
}

pub(crate) struct RemoteCheck {
    /// key without the common prefix
    pub(crate) name: String,
    pub(crate) quota: RateLimitQuota,
}

/// The number of requests left or, if refused, the time to wait.
pub(crate) type QuotaVerdict = Result<u32, Duration>;

impl RemoteLimiter {
    pub(crate) fn new(redis: Arc<RedisClient>) -> RemoteLimiter {
        RemoteLimiter { redis, script: Script::new(include_str!("gcra.lua")) }
    }

    /// Counts a request against all quotas, or against none if one refuses it, in one atomic call.
    pub(crate) async fn take(&self, checks: &[RemoteCheck]) -> Result<Vec<QuotaVerdict>, RedisQueryFailed> {
        let mut call = self.script.prepare_invoke();
        for RemoteCheck { name, quota } in checks {
            let interval = quota.per.as_secs_f64() * 1e6 / f64::from(quota.requests.get());
            call.key(format!("{}{name}", self.redis.settings.prefix)).arg(interval).arg(quota.burst.get());
        }
        let invoke = |mut connection| async move { call.invoke_async::<Vec<i64>>(&mut connection).await };
        let answer = self.redis.query(invoke).await?;
        let verdict = |pair: &[i64]| match *pair {
            [remaining, 0] => Ok(u32::try_from(remaining).unwrap_or(u32::MAX)),
            [_, wait] => Err(Duration::from_micros(wait.unsigned_abs())),
            _ => Ok(0),
        };
        Ok(answer.chunks(2).map(verdict).collect())
    }
}
