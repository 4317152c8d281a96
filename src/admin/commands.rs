//! What the process can be told to do, by whoever may.

use tokio::sync::{mpsc, oneshot, watch};

/// Asks for the configuration to be read again; the answer comes there.
pub type Ask = oneshot::Sender<Reloaded>;

/// What differs now, or all that is wrong.
pub type Reloaded = Result<String, String>;

/// How many may ask at once. What comes beyond is as good as asked: the file is read after it.
const ASKS: usize = 16;

/// How the process is to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// as it does
    Serve,
    /// to its end
    Drain,
    /// to its end as well, in its own time: another one has its sockets
    Retire,
}

/// Takes orders.
#[derive(Clone, Debug)]
pub struct Orders {
    wish: watch::Sender<Wish>,
    asks: mpsc::Sender<Ask>,
}

impl Orders {
    /// The orders of one process, and where it hears of those to read its configuration again.
    #[must_use]
    pub fn new() -> (Orders, mpsc::Receiver<Ask>) {
        let (asks, asked) = mpsc::channel(ASKS);
        (Orders { wish: watch::Sender::new(Wish::Serve), asks }, asked)
    }

    /// Lets the process end in that way. The first wish stands.
    pub fn end(&self, wish: Wish) {
        self.wish.send_if_modified(|now| {
            let first = *now == Wish::Serve;
            if first {
                *now = wish;
            }
            first
        });
    }

    /// Waits until the process is to end.
    pub async fn ended(&self) -> Wish {
        let mut wish = self.wish.subscribe();
        // This keeps a sender, so it does not fail.
        wish.wait_for(|wish| *wish != Wish::Serve).await.map_or(Wish::Serve, |wish| *wish)
    }

    /// Has the configuration read again, without waiting for it.
    pub fn reload(&self) {
        let _ = self.asks.try_send(oneshot::channel().0);
    }

    /// Has the configuration read again.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub async fn reloaded(&self) -> Reloaded {
        let (ask, answer) = oneshot::channel();
        let gone = |_| "the process is ending".to_owned();
        self.asks.send(ask).await.map_err(|_| gone(()))?;
        answer.await.map_err(|_| gone(()))?
    }
}
