//! Shutdown of the process.
//!
//! ```text
//!             signal, command            drain_grace             drain_timeout, no open runs      all flushed
//!   Serving ───────────────────▶ Grace ─────────────▶ Draining ──────────────────────────▶ Cut ──────────────▶ exit
//!                                  │                                                        ▲
//!                                  ╰─── signal (see ShutdownCause), also while Draining ────╯
//! ```
//! - Grace: `/readyz` returns 503. Requests are accepted until load balancers notice; HTTP/1 responses ask clients to
//!   reconnect.
//! - Draining: the listeners are closed, and each connection closes after its current requests. Requests that an HTTP/2
//!   client sends before it receives GOAWAY are served.
//! - Cut: runs that are still open end with RUN_ERROR, and their bodies end cleanly.
//!
//! After a handover the old process follows the same steps, but its listeners close at once, since its successor
//! accepts connections, and its runs may continue for `upgrade_timeout`.

use super::notify::ServiceState;
use super::upgrade::{LocalEndpoint, Predecessor};
use crate::admin::{ProcessHandle, ShutdownCommand};
use crate::config::Config;
use crate::net::SwapCell;
use crate::policy::RequestPolicy;
use crate::proxy::{DrainSignal, Lifecycle, LifecyclePhase, SocketFile};
use crate::telemetry::{Metrics, internal_event};
use async_trait::async_trait;
use parking_lot::Mutex;
use pingora_core::server::{ShutdownSignal, ShutdownSignalWatch};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Time in which open runs can send RUN_ERROR.
const CUT_GRACE: Duration = Duration::from_secs(2);

const ANSWER_GRACE: Duration = Duration::from_secs(1);

/// Time for the steps after all runs have ended, with some margin.
const SHUTDOWN_MARGIN: Duration = Duration::from_secs(5);

/// Time that idle connections stay open after a handover, while responses ask clients to reconnect.
const LINGER_TIME: Duration = Duration::from_secs(5);

/// Time for requests already in transit when their connection closes, if no run is open.
const IN_FLIGHT_GRACE: Duration = Duration::from_secs(1);

/// Maximum wait for issuer keys before a takeover.
const KEYS_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits for the shutdown and drains the process. pingora exits when [`Drain::recv`] returns.
pub(super) struct Drain {
    pub(crate) lifecycle: Lifecycle,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) config: SwapCell<Config>,
    pub(crate) policies: SwapCell<RequestPolicy>,
    pub(crate) process: ProcessHandle,
    pub(crate) drain_signals: Arc<PlaneDrainSignals>,
    pub(crate) local: Option<LocalEndpoint>,
    /// notified once this process accepts requests
    pub(crate) predecessor: Mutex<Option<Predecessor>>,
    pub(crate) listening: Vec<internal_event::ListenerStarted>,
    /// Unix socket files, which the successor takes over
    pub(crate) socket_files: Vec<Arc<SocketFile>>,
}

#[derive(Debug, Default)]
pub(super) struct PlaneDrainSignals {
    pub(crate) data: DrainSignal,
    pub(crate) status: DrainSignal,
    pub(crate) admin: DrainSignal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShutdownCause {
    /// a signal; a second one ends the wait
    Signal,
    /// an admin command; a later signal from the service manager is ignored
    Command,
    /// another process has taken over the sockets; a later signal shortens the wait to that of an ordinary shutdown
    Successor,
}

/// The phases in the diagram above in which runs continue, with their ends.
#[derive(Clone, Copy, Debug)]
enum DrainPhase {
    Grace(Instant),
    Draining(Instant),
}

struct UnixSignals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hangup: Signal,
    user1: Signal,
    user2: Signal,
}

impl UnixSignals {
    fn watch() -> io::Result<UnixSignals> {
        Ok(UnixSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }

    async fn wait_for_termination(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.quit.recv() => return,
                _ = self.user1.recv() => internal_event::SignalIgnored { signal: "SIGUSR1" }.emit(),
                _ = self.user2.recv() => internal_event::SignalIgnored { signal: "SIGUSR2" }.emit(),
            }
        }
    }
}

#[async_trait]
impl ShutdownSignalWatch for Drain {
    async fn recv(&self) -> ShutdownSignal {
        match UnixSignals::watch() {
            Ok(mut signals) => {
                self.announce_serving().await;
                let cause = self.serve_until_shutdown(&mut signals).await;
                self.wait_for_runs(cause, &mut signals).await;
                self.cut_runs().await;
            }
            Err(error) => internal_event::SignalsUnavailable { error }.emit(),
        }
        ShutdownSignal::FastShutdown
    }
}

impl Drain {
    async fn announce_serving(&self) {
        let predecessor = self.predecessor.lock().take();
        if let Some(predecessor) = predecessor {
            let keys_loaded = async {
                while !self.policies.load().auth.routes_without_keys().is_empty() {
                    sleep(Duration::from_millis(20)).await;
                }
            };
            // Until then the predecessor, which has the keys, continues to serve.
            let _ = timeout(KEYS_TIMEOUT, keys_loaded).await;
            let confirmed = tokio::task::spawn_blocking(|| predecessor.confirm_takeover()).await;
            let confirmed = confirmed.unwrap_or_else(|error| Err(error.to_string()));
            match confirmed {
                Ok(()) => internal_event::TakeoverCompleted {}.emit(),
                Err(failure) => internal_event::TakeoverUnconfirmed { failure }.emit(),
            }
            self.socket_files.iter().for_each(|file| file.set_owned(true));
        }
        if let Some(local) = &self.local
            && let Err(error) = local.socket.publish()
        {
            internal_event::AdminSocketUnpublished { error, run_dir: &local.run_dir }.emit();
        }
        // Last, because whatever reads this line may immediately send a signal, which starts the drain.
        self.listening.iter().cloned().for_each(internal_event::ListenerStarted::emit);
        ServiceState::Ready.notify();
    }

    async fn serve_until_shutdown(&self, signals: &mut UnixSignals) -> ShutdownCause {
        loop {
            tokio::select! {
                _ = signals.terminate.recv() => return ShutdownCause::Signal,
                _ = signals.interrupt.recv() => return ShutdownCause::Signal,
                _ = signals.quit.recv() => return ShutdownCause::Signal,
                _ = signals.user1.recv() => internal_event::SignalIgnored { signal: "SIGUSR1" }.emit(),
                _ = signals.user2.recv() => internal_event::SignalIgnored { signal: "SIGUSR2" }.emit(),
                _ = signals.hangup.recv() => self.process.trigger_reload(),
                command = self.process.wait_for_shutdown() => match command {
                    ShutdownCommand::Retire => return ShutdownCause::Successor,
                    ShutdownCommand::Drain => return ShutdownCause::Command,
                },
            }
        }
    }

    /// Waits until the last run ends, the timeout expires or a second signal arrives.
    async fn wait_for_runs(&self, cause: ShutdownCause, signals: &mut UnixSignals) {
        let times = self.config.load().process.clone();
        let PlaneDrainSignals { data, status, .. } = &*self.drain_signals;
        let has_successor = cause == ShutdownCause::Successor;
        let grace = if has_successor { LINGER_TIME } else { times.drain_grace };
        let mut run_timeout = if has_successor { times.upgrade_timeout } else { times.drain_timeout };
        self.lifecycle.advance(LifecyclePhase::Leaving);
        internal_event::ShutdownStarted { grace, successor: has_successor }.emit(&self.metrics);
        if !has_successor {
            // After a handover the successor notifies the service manager.
            ServiceState::Stopping(grace + run_timeout + SHUTDOWN_MARGIN).notify();
        } else {
            data.stop_accepting();
            status.stop_accepting();
            self.socket_files.iter().for_each(|file| file.set_owned(false));
            self.local.iter().for_each(|local| local.handover_sockets.close());
        }
        let mut phase = DrainPhase::Grace(Instant::now() + grace);
        let mut cause = cause;
        loop {
            let (DrainPhase::Grace(until) | DrainPhase::Draining(until)) = phase;
            tokio::select! {
                biased;
                () = signals.wait_for_termination() => {
                    match std::mem::replace(&mut cause, ShutdownCause::Signal) {
                        ShutdownCause::Signal => return,
                        ShutdownCause::Command => {}
                        ShutdownCause::Successor => {
                            run_timeout = times.drain_timeout;
                            let now = Instant::now();
                            phase = match phase {
                                DrainPhase::Grace(_) => DrainPhase::Grace(until.min(now + times.drain_grace)),
                                DrainPhase::Draining(_) => DrainPhase::Draining(now + run_timeout),
                            };
                        }
                    }
                }
                () = sleep_until(until) => match phase {
                    DrainPhase::Grace(_) => {
                        self.start_drain(run_timeout);
                        if has_successor {
                            status.close_connections();
                        }
                        phase = DrainPhase::Draining(until + run_timeout);
                    }
                    DrainPhase::Draining(_) => return,
                },
                () = self.wait_until_drained(), if matches!(phase, DrainPhase::Draining(_)) => return,
            }
        }
    }

    fn start_drain(&self, timeout: Duration) {
        self.drain_signals.data.close_connections();
        self.local.iter().for_each(|local| local.handover_sockets.close());
        internal_event::DrainStarted { timeout, runs: self.lifecycle.open_runs() }.emit();
    }

    /// Waits until all runs have ended and clients know that their connections are closing.
    async fn wait_until_drained(&self) {
        // Usually no connections are open any more, and this returns immediately.
        let _ = timeout(IN_FLIGHT_GRACE, self.drain_signals.data.wait_drained()).await;
        self.lifecycle.advance(LifecyclePhase::Draining);
        self.lifecycle.wait_drained().await;
    }

    async fn cut_runs(&self) {
        let PlaneDrainSignals { data, status, admin } = &*self.drain_signals;
        self.lifecycle.cut();
        data.close_connections();
        // A second signal during the grace period leads here without a drain.
        self.local.iter().for_each(|local| local.handover_sockets.close());
        let _ = timeout(CUT_GRACE, async { tokio::join!(self.lifecycle.wait_idle(), data.wait_drained()) }).await;
        status.close_connections();
        admin.close_connections();
        let _ = timeout(ANSWER_GRACE, async { tokio::join!(status.wait_drained(), admin.wait_drained()) }).await;
    }
}
