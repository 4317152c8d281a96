//! One reader of a log, from the log's side.

use bytes::Bytes;
use std::fmt::Debug;
use std::task::Waker;
use tokio::time::Instant;

/// A resource that a reader holds until it leaves, such as a permit.
pub(crate) trait ReaderResource: Debug + Send {}

impl<T: Debug + Send> ReaderResource for T {}

#[derive(Debug)]
pub(super) struct ReaderSlot {
    /// counts up from 1 over all readers of the log
    pub(crate) number: u64,
    /// the next byte to read
    pub(crate) offset: u64,
    /// delivered before the frames
    pub(crate) recap: Bytes,
    /// true if a keep-alive comment is due
    pub(crate) comment_due: bool,
    pub(crate) stall_watch: StallWatch,
    pub(crate) waker: Option<Waker>,
    #[expect(dead_code, reason = "held, never read")]
    pub(crate) resource: Box<dyn ReaderResource>,
}

/// Detects readers that have stopped reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StallWatch {
    /// by its connection
    Connection,
    /// by the log; no data was waiting when it last checked
    Log,
    /// by the log; data has been waiting since this time
    Waiting(Instant),
}

impl ReaderSlot {
    pub(super) fn backlog(&self, head: u64) -> usize {
        usize::try_from(head - self.offset).unwrap_or(usize::MAX).saturating_add(self.recap.len())
    }
}
