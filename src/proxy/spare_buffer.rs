//! A buffer per thread for a batch on its way from the translation to the socket.
//!
//! A run's batch is empty whenever the run waits, so that all runs of a thread share one buffer: events cost no
//! allocation, and a run that waits holds none.

use std::cell::Cell;

/// Maximum capacity that a thread keeps: an ordinary batch.
const MAX_CAPACITY: usize = 64 << 10;

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Returns the thread's buffer, or a new one while it is in use.
pub(super) fn take() -> Vec<u8> {
    SPARE.take()
}

/// Keeps a buffer for the next run.
pub(super) fn put_back(mut buffer: Vec<u8>) {
    if (1..=MAX_CAPACITY).contains(&buffer.capacity()) {
        buffer.clear();
        SPARE.set(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_one_buffer_of_ordinary_size() {
        put_back(b"of a run".to_vec());
        let buffer = take();
        assert!(buffer.is_empty() && buffer.capacity() > 0 && take().capacity() == 0);
        put_back(Vec::with_capacity(MAX_CAPACITY + 1));
        assert_eq!(take().capacity(), 0);
    }
}
