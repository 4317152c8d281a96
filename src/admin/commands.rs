//! What the process can be told to do, by whoever may.

use tokio::sync::{mpsc, oneshot, watch};

/// Asks for the configuration to be read again; the answer comes there.
pub(crate) type ReloadRequest = oneshot::Sender<ReloadResult>;

/// What differs now, or all that is wrong.
pub(crate) type ReloadResult = Result<String, String>;

/// How many may ask at once. What comes beyond is as good as asked: the file is read after it.
const MAX_PENDING_RELOADS: usize = 16;

/// How the process is to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdminCommand {
    /// as it does
    Serve,
    /// to its end
    Drain,
    /// to its end as well, in its own time: another one has its sockets
    Retire,
}

/// Takes orders.
#[derive(Clone, Debug)]
pub(crate) struct ProcessHandle {
    command: watch::Sender<AdminCommand>,
    reloads: mpsc::Sender<ReloadRequest>,
}

impl ProcessHandle {
    /// The orders of one process, and where it hears of those to read its configuration again.
    #[must_use]
    pub(crate) fn new() -> (ProcessHandle, mpsc::Receiver<ReloadRequest>) {
        let (asks, asked) = mpsc::channel(MAX_PENDING_RELOADS);
        (ProcessHandle { command: watch::Sender::new(AdminCommand::Serve), reloads: asks }, asked)
    }

    /// Lets the process end in that way. The first wish stands.
    pub(crate) fn shut_down(&self, command: AdminCommand) {
        self.command.send_if_modified(|now| {
            let first = *now == AdminCommand::Serve;
            if first {
                *now = command;
            }
            first
        });
    }

    /// Waits until the process is to end.
    pub(crate) async fn wait_for_shutdown(&self) -> AdminCommand {
        let mut wish = self.command.subscribe();
        // This keeps a sender, so it does not fail.
        wish.wait_for(|wish| *wish != AdminCommand::Serve).await.map_or(AdminCommand::Serve, |wish| *wish)
    }

    /// Has the configuration read again, without waiting for it.
    pub(crate) fn trigger_reload(&self) {
        let _ = self.reloads.try_send(oneshot::channel().0);
    }

    /// Has the configuration read again.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub(crate) async fn reload_and_wait(&self) -> ReloadResult {
        let (ask, answer) = oneshot::channel();
        let gone = |_| "the process is ending".to_owned();
        self.reloads.send(ask).await.map_err(|_| gone(()))?;
        answer.await.map_err(|_| gone(()))?
    }
}
