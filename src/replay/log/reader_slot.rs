//! The state of one reader in its log.

use bytes::Bytes;
use std::fmt::Debug;
use std::task::Waker;
use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct ReaderSlot {
    pub(crate) number: u64,
    /// the next byte to read
    pub(crate) offset: u64,
    /// sent before any frames
    pub(crate) recap: Bytes,
    /// memory reserved for the recap, until all of it has been read
    pub(crate) recap_size: usize,
    /// timestamp of the recap that is built as soon as there is an event
    pub(crate) recap_due: Option<i64>,
    /// whether a keep-alive comment is due
    pub(crate) comment_due: bool,
    pub(crate) stall_watch: StallWatch,
    pub(crate) waker: Option<Waker>,
    #[expect(dead_code, reason = "held, never read")]
    pub(crate) resource: Box<dyn Debug + Send>,
}

/// Detects a reader that has stopped reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StallWatch {
    /// the connection detects it
    Connection,
    /// the log detects it; no data was waiting at the last check
    Log,
    /// the log detects it; data has been waiting since this time
    Waiting(Instant),
}

impl ReaderSlot {
    pub(super) fn backlog(&self, head: u64) -> usize {
        usize::try_from(head - self.offset).unwrap_or(usize::MAX).saturating_add(self.recap.len())
    }
}
