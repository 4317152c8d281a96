//! The way out of the process.
//!
//! 1. Somebody wants it to end. `/readyz` says 503, and for `drain_grace` everything is taken as before: load balancers take
//!    their time to see it. HTTP/1 clients are told to come back over another connection.
//! 2. The listeners close, and so does each connection behind what it is doing; runs may go on for `drain_timeout`. A client of
//!    HTTP/2 may send requests until it has heard GOAWAY: they are served as well.
//! 3. What still runs is cut: it ends with RUN_ERROR, and its body ends cleanly.
//! 4. The process ends when the last connection is written out.
//!
//! A process that another one has taken over from goes the same way with other times: its listeners close at once, since the
//! other one accepts, and its runs have `upgrade_timeout`.

use super::LocalEndpoint;
use super::notify::ServiceState;
use super::upgrade::Predecessor;
use crate::admin::{AdminCommand, ProcessHandle};
use crate::config::Config;
use crate::guard::RequestPolicy;
use crate::net::SwapCell;
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

/// Time for runs to say RUN_ERROR once they are cut, and for their clients to take it.
const CUT_GRACE: Duration = Duration::from_secs(2);

/// Time for the answers of the status and admin planes.
const ANSWER_GRACE: Duration = Duration::from_secs(1);

/// All that may come behind the time for runs, and some more.
const SHUTDOWN_MARGIN: Duration = Duration::from_secs(5);

/// How long clients have to use the connections that they keep to a process that was taken over from, and to hear with the
/// answer that they should open another. Idle ones are closed behind it.
const LINGER_TIME: Duration = Duration::from_secs(5);

/// How long a process without runs waits for what clients sent before they heard that their connection ends. Where it has
/// runs, that comes in beside them.
const IN_FLIGHT_GRACE: Duration = Duration::from_secs(1);

/// How long a process waits for keys of its issuers before it takes over all the same.
const KEYS_TIMEOUT: Duration = Duration::from_secs(10);

/// Watches for the end, and brings it about. pingora ends the process when [`Drain::recv`] returns.
pub(super) struct Drain {
    pub(crate) lifecycle: Lifecycle,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) config: SwapCell<Config>,
    pub(crate) guards: SwapCell<RequestPolicy>,
    pub(crate) process: ProcessHandle,
    pub(crate) drain_signals: Arc<PlaneDrainSignals>,
    pub(crate) local: Option<LocalEndpoint>,
    /// who is to be told that this process serves
    pub(crate) predecessor: Mutex<Option<Predecessor>>,
    pub(crate) listening: Vec<internal_event::ListenerStarted>,
    /// of Unix sockets; another process goes on with them
    pub(crate) socket_files: Vec<Arc<SocketFile>>,
}

/// The ways into the planes.
#[derive(Debug, Default)]
pub(super) struct PlaneDrainSignals {
    pub(crate) data: DrainSignal,
    pub(crate) status: DrainSignal,
    pub(crate) admin: DrainSignal,
}

/// Who wants the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShutdownCause {
    /// a signal; the next one means that nobody wants to wait
    Signal,
    /// an order. A signal comes behind it as a matter of course, from whatever stops processes
    Command,
    /// another process has the sockets. A signal means that this one is to end too, as if it had been the first
    Successor,
}

/// The signals that the process hears.
struct UnixSignals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl UnixSignals {
    fn watch() -> io::Result<UnixSignals> {
        Ok(UnixSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for one that asks for the end.
    async fn wait_for_termination(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
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
            Err(error) => tracing::error!(%error, "signals cannot be watched"),
        }
        ShutdownSignal::FastShutdown
    }
}

impl Drain {
    /// Says that the process serves: to whoever has served so far, to whoever looks for its socket, to the log.
    async fn announce_serving(&self) {
        let before = self.predecessor.lock().take();
        if let Some(before) = before {
            let ready = async {
                while !self.guards.load().authenticator().routes_without_keys().is_empty() {
                    sleep(Duration::from_millis(20)).await;
                }
            };
            // The other one goes on until then; it has the keys.
            let _ = timeout(KEYS_TIMEOUT, ready).await;
            let told = tokio::task::spawn_blocking(|| before.confirm_takeover()).await;
            let told = told.unwrap_or_else(|error| Err(error.to_string()));
            internal_event::TakeoverCompleted { failure: told.err() }.emit();
            self.socket_files.iter().for_each(|file| file.take_ownership());
        }
        if let Some(local) = &self.local
            && let Err(error) = local.socket.publish()
        {
            tracing::error!(%error, run_dir = %local.run_dir.display(), "the admin socket cannot be put in its place");
        }
        // Said only now: whoever reads it may send a signal at once, and that drains.
        self.listening.iter().for_each(internal_event::ListenerStarted::emit);
        ServiceState::Ready.notify();
    }

    /// Waits until somebody wants the end.
    async fn serve_until_shutdown(&self, signals: &mut UnixSignals) -> ShutdownCause {
        loop {
            tokio::select! {
                _ = signals.terminate.recv() => return ShutdownCause::Signal,
                _ = signals.interrupt.recv() => return ShutdownCause::Signal,
                _ = signals.hangup.recv() => self.process.trigger_reload(),
                wish = self.process.wait_for_shutdown() => match wish {
                    AdminCommand::Retire => return ShutdownCause::Successor,
                    AdminCommand::Drain | AdminCommand::Serve => return ShutdownCause::Command,
                },
            }
        }
    }

    /// Waits until the last run has ended, the time is over, or nobody wants to wait any more.
    async fn wait_for_runs(&self, cause: ShutdownCause, signals: &mut UnixSignals) {
        let times = self.config.load().process.clone();
        let PlaneDrainSignals { data, status, .. } = &*self.drain_signals;
        let (grace, mut left) = match cause {
            ShutdownCause::Signal | ShutdownCause::Command => (times.drain_grace, times.drain_timeout),
            ShutdownCause::Successor => (LINGER_TIME, times.upgrade_timeout),
        };
        self.lifecycle.advance(LifecyclePhase::Leaving);
        internal_event::ShutdownStarted { grace, successor: cause == ShutdownCause::Successor }.emit(&self.metrics);
        if cause != ShutdownCause::Successor {
            // The service goes on with the other one, which says so itself.
            ServiceState::Stopping(grace + left + SHUTDOWN_MARGIN).notify();
        }
        if cause == ShutdownCause::Successor {
            data.stop_accepting();
            status.stop_accepting();
            self.socket_files.iter().for_each(|file| file.release());
            self.local.iter().for_each(|local| local.handover_sockets.close());
        }
        let mut drain = Instant::now() + grace;
        let (mut draining, mut patient) = (false, cause != ShutdownCause::Signal);
        loop {
            tokio::select! {
                biased;
                () = signals.wait_for_termination() => {
                    if !patient {
                        return;
                    }
                    patient = false;
                    if cause == ShutdownCause::Successor {
                        left = times.drain_timeout;
                        drain = if draining { Instant::now() } else { drain.min(Instant::now() + times.drain_grace) };
                    }
                }
                () = sleep_until(drain), if !draining => {
                    draining = true;
                    self.start_drain(left);
                    if cause == ShutdownCause::Successor {
                        status.close_connections();
                    }
                }
                () = sleep_until(drain + left), if draining => return,
                () = self.wait_until_drained(), if draining => return,
            }
        }
    }

    /// Takes no more connections, and asks those that there are to end.
    fn start_drain(&self, timeout: Duration) {
        self.drain_signals.data.close_connections();
        self.local.iter().for_each(|local| local.handover_sockets.close());
        internal_event::DrainStarted { timeout, runs: self.lifecycle.open_runs() }.emit();
    }

    /// Waits until no run is open, and no client can send another one without knowing better.
    async fn wait_until_drained(&self) {
        // That no connection is left is the usual case, and takes no time.
        let _ = timeout(IN_FLIGHT_GRACE, self.drain_signals.data.wait_drained()).await;
        self.lifecycle.advance(LifecyclePhase::Draining);
        self.lifecycle.wait_drained().await;
    }

    /// Whatever still runs ends well-formed: RUN_ERROR, then a clean end of the body.
    async fn cut_runs(&self) {
        let PlaneDrainSignals { data, status, admin } = &*self.drain_signals;
        self.lifecycle.advance(LifecyclePhase::Cut);
        data.close_connections();
        let _ = timeout(CUT_GRACE, async { tokio::join!(self.lifecycle.wait_idle(), data.wait_drained()) }).await;
        status.close_connections();
        admin.close_connections();
        let _ = timeout(ANSWER_GRACE, async { tokio::join!(status.wait_drained(), admin.wait_drained()) }).await;
    }
}
