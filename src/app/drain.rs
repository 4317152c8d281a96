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

use super::Local;
use super::notify::News;
use super::upgrade::Predecessor;
use crate::admin::{Orders, Wish};
use crate::config::Config;
use crate::guard::{Current, Guard};
use crate::proxy::{Door, Lifecycle, Phase, SocketFile};
use crate::telemetry::{Metrics, occurrence};
use async_trait::async_trait;
use pingora_core::server::{ShutdownSignal, ShutdownSignalWatch};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Time for runs to say RUN_ERROR once they are cut, and for their clients to take it.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Time for the answers of the status and admin planes.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// All that may come behind the time for runs, and some more.
const LAST: Duration = Duration::from_secs(5);

/// How long clients have to use the connections that they keep to a process that was taken over from, and to hear with the
/// answer that they should open another. Idle ones are closed behind it.
const LINGER: Duration = Duration::from_secs(5);

/// How long a process without runs waits for what clients sent before they heard that their connection ends. Where it has
/// runs, that comes in beside them.
const CROSSING: Duration = Duration::from_secs(1);

/// How long a process waits for keys of its issuers before it takes over all the same.
const KEYS: Duration = Duration::from_secs(10);

/// Watches for the end, and brings it about. pingora ends the process when [`Drain::recv`] returns.
pub(super) struct Drain {
    pub lifecycle: Lifecycle,
    pub metrics: Arc<Metrics>,
    pub config: Current<Config>,
    pub guards: Current<Guard>,
    pub orders: Orders,
    pub doors: Arc<Doors>,
    pub local: Option<Local>,
    /// who is to be told that this process serves
    pub takeover: Mutex<Option<Predecessor>>,
    pub listening: Vec<occurrence::Listening>,
    /// of Unix sockets; another process goes on with them
    pub files: Vec<Arc<SocketFile>>,
}

/// The ways into the planes.
#[derive(Debug, Default)]
pub(super) struct Doors {
    pub data: Door,
    pub status: Door,
    pub admin: Door,
}

/// Who wants the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// a signal; the next one means that nobody wants to wait
    Signal,
    /// an order. A signal comes behind it as a matter of course, from whatever stops processes
    Order,
    /// another process has the sockets. A signal means that this one is to end too, as if it had been the first
    Successor,
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
                self.begin().await;
                let cause = self.serve(&mut signals).await;
                self.leave(cause, &mut signals).await;
                self.end().await;
            }
            Err(error) => tracing::error!(%error, "signals cannot be watched"),
        }
        ShutdownSignal::FastShutdown
    }
}

impl Drain {
    /// Says that the process serves: to whoever has served so far, to whoever looks for its socket, to the log.
    async fn begin(&self) {
        let before = self.takeover.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(before) = before {
            let ready = async {
                while !self.guards.get().auth().unusable().is_empty() {
                    sleep(Duration::from_millis(20)).await;
                }
            };
            // The other one goes on until then; it has the keys.
            let _ = timeout(KEYS, ready).await;
            let told = tokio::task::spawn_blocking(|| before.relieve()).await;
            let told = told.unwrap_or_else(|error| Err(error.to_string()));
            occurrence::TakenOver { failure: told.err() }.emit();
            self.files.iter().for_each(|file| file.own());
        }
        if let Some(local) = &self.local
            && let Err(error) = local.socket.publish()
        {
            tracing::error!(%error, run_dir = %local.run_dir.display(), "the admin socket cannot be put in its place");
        }
        // Said only now: whoever reads it may send a signal at once, and that drains.
        self.listening.iter().for_each(occurrence::Listening::emit);
        News::Serving.tell();
    }

    /// Waits until somebody wants the end.
    async fn serve(&self, signals: &mut Signals) -> Cause {
        loop {
            tokio::select! {
                _ = signals.terminate.recv() => return Cause::Signal,
                _ = signals.interrupt.recv() => return Cause::Signal,
                _ = signals.hangup.recv() => self.orders.reload(),
                wish = self.orders.ended() => match wish {
                    Wish::Retire => return Cause::Successor,
                    Wish::Drain | Wish::Serve => return Cause::Order,
                },
            }
        }
    }

    /// Waits until the last run has ended, the time is over, or nobody wants to wait any more.
    async fn leave(&self, cause: Cause, signals: &mut Signals) {
        let times = self.config.get().process.clone();
        let Doors { data, status, .. } = &*self.doors;
        let (grace, mut left) = match cause {
            Cause::Signal | Cause::Order => (times.drain_grace, times.drain_timeout),
            Cause::Successor => (LINGER, times.upgrade_timeout),
        };
        self.lifecycle.advance(Phase::Leaving);
        occurrence::Leaving { grace, successor: cause == Cause::Successor }.emit(&self.metrics);
        if cause != Cause::Successor {
            // The service goes on with the other one, which says so itself.
            News::Ending(grace + left + LAST).tell();
        }
        if cause == Cause::Successor {
            data.shut();
            status.shut();
            self.files.iter().for_each(|file| file.leave());
            self.local.iter().for_each(|local| local.legacy.close());
        }
        let mut drain = Instant::now() + grace;
        let (mut draining, mut patient) = (false, cause != Cause::Signal);
        loop {
            tokio::select! {
                biased;
                () = signals.end() => {
                    if !patient {
                        return;
                    }
                    patient = false;
                    if cause == Cause::Successor {
                        left = times.drain_timeout;
                        drain = if draining { Instant::now() } else { drain.min(Instant::now() + times.drain_grace) };
                    }
                }
                () = sleep_until(drain), if !draining => {
                    draining = true;
                    self.drain(left);
                    if cause == Cause::Successor {
                        status.close();
                    }
                }
                () = sleep_until(drain + left), if draining => return,
                () = self.emptied(), if draining => return,
            }
        }
    }

    /// Takes no more connections, and asks those that there are to end.
    fn drain(&self, timeout: Duration) {
        self.doors.data.close();
        self.local.iter().for_each(|local| local.legacy.close());
        occurrence::Draining { timeout, runs: self.lifecycle.open() }.emit();
    }

    /// Waits until no run is open, and no client can send another one without knowing better.
    async fn emptied(&self) {
        // That no connection is left is the usual case, and takes no time.
        let _ = timeout(CROSSING, self.doors.data.empty()).await;
        self.lifecycle.advance(Phase::Draining);
        self.lifecycle.drained().await;
    }

    /// Whatever still runs ends well-formed: RUN_ERROR, then a clean end of the body.
    async fn end(&self) {
        let Doors { data, status, admin } = &*self.doors;
        self.lifecycle.advance(Phase::Cut);
        data.close();
        let _ = timeout(LAST_WORDS, async { tokio::join!(self.lifecycle.idle(), data.empty()) }).await;
        status.close();
        admin.close();
        let _ = timeout(LAST_ANSWERS, async { tokio::join!(status.empty(), admin.empty()) }).await;
    }
}
