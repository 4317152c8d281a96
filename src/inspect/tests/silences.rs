//! Silences of an agent, and waits for its client that explain them.

use super::{STARTED_MS, begin, store};
use crate::inspect::agent_silence::RunSpan;
use std::time::Duration;
use tokio::time::{Instant, advance};

#[tokio::test(start_paused = true)]
async fn a_silence_is_one_that_no_wait_for_the_client_explains() {
    for (outcome, waited_until, longest, last) in [
        // The gateway waited for the client in the longest.
        ("client_gone", 30_000, Some((31_000, 39_000)), None),
        ("client_gone", 0, Some((1_000, 30_000)), None),
    ] {
        let store = store();
        let capture = begin(&store, "chat");
        let began = Instant::now();
        let read_after = async |ms: u64| {
            advance(Duration::from_millis(ms)).await;
            capture.record_read(STARTED_MS + i64::try_from(began.elapsed().as_millis()).expect("short"), b"x");
        };
        read_after(1_000).await;
        let wait = Instant::now();
        advance(Duration::from_millis(29_000)).await;
        if waited_until > 0 {
            capture.timeline().record_client_wait(wait);
        }
        read_after(0).await;
        read_after(1_000).await;
        read_after(8_000).await;
        capture.record_end(outcome, None, None);
        let run = store.find(1).expect("kept");
        let span = |times: Option<(u64, u64)>| times.map(|(from_ms, until_ms)| RunSpan { from_ms, until_ms });
        assert_eq!((run.longest_silence(), run.last_silence()), (span(longest), span(last)), "{outcome}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_may_end_in_a_silence_shorter_than_an_earlier_one() {
    let last = RunSpan { from_ms: 9_000, until_ms: 14_000 };
    for (outcome, expected) in [("client_gone", Some(last)), ("finished", None)] {
        let store = store();
        let capture = begin(&store, "chat");
        capture.record_read(STARTED_MS + 9_000, b"x");
        advance(Duration::from_millis(14_000)).await;
        capture.record_end(outcome, None, None);
        let run = store.find(1).expect("kept");
        assert_eq!(run.last_silence(), expected, "{outcome}");
        assert_eq!(run.longest_silence(), Some(RunSpan { from_ms: 0, until_ms: 9_000 }), "{outcome}");
    }
}
