//! A bounded queue of log lines, which a thread writes to stderr.
//!
//! ```text
//!   push: a line ─▶ pending ── the thread wakes, waits a moment for more, takes all ─▶ stderr
//! ```
//! So a burst of lines costs one wake-up, and one write for a few of them.

use parking_lot::{Condvar, Mutex};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tracing_subscriber::fmt::MakeWriter;

/// Time that the thread waits for more lines once there is one.
const BATCH_DELAY: Duration = Duration::from_millis(20);

/// Maximum length of one write, if no line is longer. Linux lets no other process with the same pipe write in between.
const WRITE_SIZE: usize = 4096;

/// Capacity that the buffers keep.
const KEPT_CAPACITY: usize = 64 << 10;

/// Maximum time to wait for the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// A handle for adding lines. More lines than the limit are dropped and counted.
#[derive(Clone)]
pub(super) struct LineQueue(Arc<QueueShared>);

/// Writes all lines when dropped, if stderr takes them within a second.
pub(crate) struct LogGuard(LineQueue);

struct QueueShared {
    lines: Mutex<QueuedLines>,
    changed: Condvar,
    max_lines: usize,
    dropped: AtomicUsize,
}

#[derive(Default)]
struct QueuedLines {
    pending: Vec<u8>,
    /// number of lines, including those that are being written
    count: usize,
    state: QueueState,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum QueueState {
    #[default]
    Open,
    /// the thread writes what is pending, and ends
    Closing,
    Flushed,
}

impl LineQueue {
    /// Starts the thread, which writes to `out`.
    pub(super) fn start(max_lines: usize, out: impl Write + Send + 'static) -> io::Result<(LineQueue, LogGuard)> {
        let lines = Mutex::default();
        let shared = QueueShared { lines, changed: Condvar::new(), max_lines, dropped: AtomicUsize::new(0) };
        let queue = LineQueue(Arc::new(shared));
        let written = LineQueue::clone(&queue);
        thread::Builder::new().name("log".to_owned()).spawn(move || written.write_lines(out))?;
        Ok((LineQueue::clone(&queue), LogGuard(queue)))
    }

    fn push(&self, line: &[u8]) {
        let mut lines = self.0.lines.lock();
        if lines.count >= self.0.max_lines {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        lines.count += 1;
        lines.pending.extend_from_slice(line);
        drop(lines);
        // Makes no system call unless the thread waits.
        self.0.changed.notify_all();
    }

    /// Returns the number of lines that were dropped so far.
    pub(super) fn dropped_lines(&self) -> usize {
        self.0.dropped.load(Ordering::Relaxed)
    }

    fn write_lines(&self, mut out: impl Write) {
        let QueueShared { lines, changed, .. } = &*self.0;
        let mut taken = Vec::new();
        loop {
            let mut queued = lines.lock();
            if queued.pending.is_empty() && queued.state == QueueState::Open {
                changed.wait(&mut queued);
            }
            if queued.state == QueueState::Open {
                drop(queued);
                thread::sleep(BATCH_DELAY);
                queued = lines.lock();
            }
            std::mem::swap(&mut queued.pending, &mut taken);
            let count = queued.count;
            let is_last = queued.state == QueueState::Closing;
            drop(queued);
            // Nothing can be reported without stderr.
            let _ = write_whole_lines(&mut out, &taken);
            taken.clear();
            taken.shrink_to(KEPT_CAPACITY);
            let mut queued = lines.lock();
            queued.count -= count;
            if is_last {
                queued.state = QueueState::Flushed;
                drop(queued);
                changed.notify_all();
                return;
            }
        }
    }
}

/// Writes lines, as many at once as fit into [`WRITE_SIZE`].
fn write_whole_lines(out: &mut impl Write, mut lines: &[u8]) -> io::Result<()> {
    while !lines.is_empty() {
        let fitting = &lines[..lines.len().min(WRITE_SIZE)];
        let end = memchr::memrchr(b'\n', fitting).or_else(|| memchr::memchr(b'\n', lines));
        let (written, rest) = lines.split_at(end.map_or(lines.len(), |end| end + 1));
        out.write_all(written)?;
        lines = rest;
    }
    out.flush()
}

impl Write for &LineQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LineQueue {
    type Writer = &'a LineQueue;

    fn make_writer(&'a self) -> &'a LineQueue {
        self
    }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        let QueueShared { lines, changed, .. } = &*self.0.0;
        let until = Instant::now() + FLUSH_TIMEOUT;
        let mut queued = lines.lock();
        queued.state = QueueState::Closing;
        changed.notify_all();
        while queued.state != QueueState::Flushed && !changed.wait_until(&mut queued, until).timed_out() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps each write, as the length and the bytes.
    #[derive(Clone, Default)]
    struct Writes(Arc<Mutex<Vec<Vec<u8>>>>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn writes_whole_lines_in_order_and_all_of_them_at_the_end() {
        let writes = Writes::default();
        let (queue, guard) = LineQueue::start(1000, writes.clone()).expect("a thread");
        let line =
            |number: usize| format!("{number} {}\n", "x".repeat(if number == 50 { 2 * WRITE_SIZE } else { 100 }));
        for number in 0..100 {
            queue.push(line(number).as_bytes());
        }
        drop(guard);
        let writes = writes.0.lock();
        assert_eq!(writes.concat(), (0..100).map(line).collect::<String>().into_bytes());
        assert!(
            writes
                .iter()
                .all(|write| write.ends_with(b"\n") && (write.len() <= WRITE_SIZE || write.starts_with(b"50 ")))
        );
        assert!(writes.len() < 20, "{} writes", writes.len());
    }

    #[test]
    fn drops_and_counts_lines_above_the_limit() {
        struct Stuck;
        impl Write for Stuck {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                loop {
                    thread::park();
                }
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (queue, guard) = LineQueue::start(3, Stuck).expect("a thread");
        (0..10).for_each(|_| queue.push(b"a line\n"));
        assert_eq!(queue.dropped_lines(), 7);
        drop(guard);
    }
}
