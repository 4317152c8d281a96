//! The test bench of the data plane: the real binary, scripted agents, and a client that sees every byte. Nothing here
//! asserts the behaviour of the gateway; tests do.
//!
//! No test sleeps. A test waits for an event (a request, a log line, the end of a body), and every wait has
//! [`DEADLINE`]; values that can only be polled, such as metrics, are polled by [`eventually`].

pub mod agent;
pub mod client;
pub mod collector;
pub mod fault_proxy;
pub mod gateway;
pub mod http2;
pub mod prometheus;
pub mod redis;
pub mod sse;
pub mod temp_folder;
pub mod tls;

use aws_lc_rs::digest::{SHA256, digest};
use std::future::Future;
use std::time::Duration;
use tokio::time::{interval, timeout};

/// Longest wait for anything that has to happen. Long, since only a test that fails ever waits for it.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Longest time for a whole body. Each piece of it may be in time for ever, as keep-alives are.
pub const WHOLE_BODY: Duration = Duration::from_secs(60);

/// Interval at which a condition is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The result of `future`, which has to come before the deadline.
pub async fn within_deadline<F: Future>(what: &str, future: F) -> F::Output {
    within(DEADLINE, what, future).await
}

/// The result of `future`, which has to come within that time.
pub async fn within<F: Future>(limit: Duration, what: &str, future: F) -> F::Output {
    timeout(limit, future).await.unwrap_or_else(|_| panic!("{what}: not within {limit:?}"))
}

/// Asks until the answer is something, and gives it.
pub async fn eventually<T>(what: &str, mut poll: impl AsyncFnMut() -> Option<T>) -> T {
    within_deadline(what, async {
        let mut again = interval(POLL_INTERVAL);
        loop {
            if let Some(answer) = poll().await {
                return answer;
            }
            again.tick().await;
        }
    })
    .await
}

/// The digest of an API key, as its entry in a configuration has it.
pub fn sha256(key: &str) -> String {
    digest(&SHA256, key.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
