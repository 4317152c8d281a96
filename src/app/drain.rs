//! The way out of the process.
//!
//! 1. Somebody wants it to end. `/readyz` says 503, and for `drain_grace` everything is taken as before: load balancers take
//!    their time to see it. HTTP/1 clients are told to come back over another connection.
//! 2. The listeners close, and so does each connection behind what it is doing; runs may go on for `drain_timeout`.
//! 3. What still runs is cut: it ends with RUN_ERROR, and its body ends cleanly.
//! 4. The process ends when the last connection is written out.

use crate::config::process::Process;
use crate::proxy::{Door, Lifecycle, Phase};
use crate::telemetry::{Metrics, occurrence};
use async_trait::async_trait;
use pingora_core::server::{ShutdownSignal, ShutdownSignalWatch};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until, timeout};

/// Time for runs to say RUN_ERROR once they are cut, and for their clients to take it.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Time for the answers of the status plane.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Watches for the end, and brings it about. pingora ends the process when [`Drain::recv`] returns.
pub(super) struct Drain {
    pub lifecycle: Lifecycle,
    pub metrics: Arc<Metrics>,
    pub process: Process,
    /// of the data plane and of the status plane
    pub doors: [Arc<Door>; 2],
    pub listening: Vec<occurrence::Listening>,
}

/// The signals that the process hears.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn watch() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for one that asks for the end.
    async fn end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[async_trait]
impl ShutdownSignalWatch for Drain {
    async fn recv(&self) -> ShutdownSignal {
        match Signals::watch() {
            Ok(mut signals) => {
                // Said only now: whoever reads it may send a signal at once, and that drains.
                self.listening.iter().for_each(occurrence::Listening::emit);
                self.serve(&mut signals).await;
                self.leave(&mut signals).await;
                self.end().await;
            }
            Err(error) => tracing::error!(%error, "signals cannot be watched"),
        }
        ShutdownSignal::FastShutdown
    }
}

impl Drain {
    /// Waits until somebody wants the end.
    async fn serve(&self, signals: &mut Signals) {
        loop {
            tokio::select! {
                _ = signals.terminate.recv() => return,
                _ = signals.interrupt.recv() => return,
                // A closed terminal must not end a gateway.
                _ = signals.hangup.recv() => tracing::warn!("SIGHUP ignored: the configuration is read at the start only"),
            }
        }
    }

    /// Waits until the last run has ended, the time is over, or nobody wants to wait any more.
    async fn leave(&self, signals: &mut Signals) {
        let Process { drain_grace, drain_timeout, .. } = self.process;
        self.lifecycle.advance(Phase::Leaving);
        occurrence::Leaving { grace: drain_grace }.emit(&self.metrics);
        let drain = Instant::now() + drain_grace;
        let mut draining = false;
        loop {
            tokio::select! {
                biased;
                () = signals.end() => return,
                () = sleep_until(drain), if !draining => {
                    draining = true;
                    self.drain(drain_timeout);
                }
                () = sleep_until(drain + drain_timeout), if draining => return,
                () = self.lifecycle.drained() => return,
            }
        }
    }

    /// Takes nothing any more.
    fn drain(&self, timeout: Duration) {
        let [data, _] = &self.doors;
        self.lifecycle.advance(Phase::Draining);
        data.close();
        occurrence::Draining { timeout, runs: self.lifecycle.open() }.emit();
    }

    /// Whatever still runs ends well-formed: RUN_ERROR, then a clean end of the body.
    async fn end(&self) {
        let [data, status] = &self.doors;
        self.lifecycle.advance(Phase::Cut);
        data.close();
        let _ = timeout(LAST_WORDS, async { tokio::join!(self.lifecycle.idle(), data.empty()) }).await;
        status.close();
        let _ = timeout(LAST_ANSWERS, status.empty()).await;
    }
}
