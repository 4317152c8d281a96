//! The memory that an event of a run touches.

use super::RunTask;
use crate::prefetch::{prefetch, prefetch_start};
use crate::proxy::upstream::Session;
use std::mem::offset_of;

/// Length of what every event touches before the memory share.
const HOT_START: usize = offset_of!(RunTask, context.record.summary.client_dialect);

impl RunTask {
    pub(super) fn prefetch(&self, session: &Session) {
        prefetch_start(self, HOT_START);
        session.prefetch();
        self.interrupt_waker.prefetch();
        prefetch(&self.memory);
        self.stream.prefetch();
    }
}
