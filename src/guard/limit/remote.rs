//! Quotas that replicas count together, in Redis.

use crate::config::access::Quota;
use crate::guard::redis::{Away, Redis};
use redis::Script;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Counts in Redis.
pub struct Shared {
    redis: Arc<Redis>,
    script: Script,
}

/// One quota that a request is counted against.
#[derive(Debug)]
pub struct Question {
    /// behind the prefix of all keys
    pub name: String,
    /// how often
    pub quota: Quota,
}

/// How many more may come at once, or how long to wait.
pub type Verdict = Result<u32, Duration>;

impl Shared {
    /// Counts over this connection.
    pub fn new(redis: Arc<Redis>) -> Shared {
        Shared { redis, script: Script::new(include_str!("gcra.lua")) }
    }

    /// Counts a request against all of these quotas, or, when one refuses it, against none: in one round trip, and without
    /// anything happening in between.
    ///
    /// # Errors
    /// [`Away`] when there is no answer in time. It may have been counted then.
    pub async fn take(&self, questions: &[Question]) -> Result<Vec<Verdict>, Away> {
        let mut call = self.script.prepare_invoke();
        for Question { name, quota } in questions {
            let interval = quota.per.as_secs_f64() * 1e6 / f64::from(quota.requests.get());
            call.key(format!("{}{name}", self.redis.prefix())).arg(interval).arg(quota.burst.get());
        }
        let ask = |mut connection| async move { call.invoke_async::<Vec<i64>>(&mut connection).await };
        let answer = self.redis.ask(ask).await?;
        let verdict = |pair: &[i64]| match *pair {
            [remaining, 0] => Ok(u32::try_from(remaining).unwrap_or(u32::MAX)),
            [_, wait] => Err(Duration::from_micros(wait.unsigned_abs())),
            _ => Ok(0),
        };
        Ok(answer.chunks(2).map(verdict).collect())
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.redis.fmt(f)
    }
}
