//! Commands that change the process: shut down, retire, reload.

use tokio::sync::{mpsc, oneshot, watch};

/// Carries the result of a reload back to the requester.
pub(crate) type ReloadRequest = oneshot::Sender<ReloadResult>;

/// The changes, or all problems found.
pub(crate) type ReloadResult = Result<String, String>;

/// Maximum number of queued reloads. Additional signals are dropped, since a queued reload will read the file anyway.
const MAX_PENDING_RELOADS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShutdownCommand {
    Drain,
    /// drain within `upgrade_timeout`, since another process has taken over the sockets
    Retire,
}

#[derive(Clone, Debug)]
pub(crate) struct ProcessHandle {
    /// the first command
    shutdown: watch::Sender<Option<ShutdownCommand>>,
    reloads: mpsc::Sender<ReloadRequest>,
}

impl ProcessHandle {
    pub(crate) fn new() -> (ProcessHandle, mpsc::Receiver<ReloadRequest>) {
        let (reloads, receiver) = mpsc::channel(MAX_PENDING_RELOADS);
        (ProcessHandle { shutdown: watch::Sender::new(None), reloads }, receiver)
    }

    /// Shuts down the process. Only the first command counts.
    pub(crate) fn shut_down(&self, command: ShutdownCommand) {
        self.shutdown.send_if_modified(|first| first.is_none() && first.replace(command).is_none());
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutdown.borrow().is_some()
    }

    pub(crate) async fn wait_for_shutdown(&self) -> ShutdownCommand {
        let mut shutdown = self.shutdown.subscribe();
        let command = shutdown.wait_for(Option::is_some).await.ok().and_then(|command| *command);
        // Fails only if the sender has been dropped, but `self` holds it.
        command.unwrap_or(ShutdownCommand::Drain)
    }

    pub(crate) fn trigger_reload(&self) {
        let _ = self.reloads.try_send(oneshot::channel().0);
    }

    pub(crate) async fn reload_and_wait(&self) -> ReloadResult {
        let (request, result) = oneshot::channel();
        // Fails only if the process is exiting, in which case waiting for the result also fails.
        let _ = self.reloads.send(request).await;
        result.await.unwrap_or_else(|_| Err("the process is ending".to_owned()))
    }
}
