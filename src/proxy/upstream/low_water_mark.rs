//! Keeps a socket from waking its run for each event of a fast agent, for as long as the run does not read anyway.

use nix::libc;
use nix::setsockopt_impl;
use nix::sys::socket::SetSockOpt;
use nix::sys::socket::sockopt::SetStruct;
use rustix::system::uname;
use std::os::fd::BorrowedFd;
use std::sync::LazyLock;

/// The bytes that wake a run at once: as many as it reads at once. It also wakes at an end and at an error.
const RAISED: libc::c_int = 16 << 10;

/// The mark of a new socket.
const INITIAL: libc::c_int = 1;

/// The first Linux that looks at what has arrived when the mark is lowered (commit 03f45c883c6f); an earlier one would
/// leave the bytes below the mark unread until more arrive.
const FIRST_LINUX: [u32; 2] = [4, 18];

static IS_SUPPORTED: LazyLock<bool> =
    LazyLock::new(|| cfg!(target_os = "linux") && uname().release().to_str().is_ok_and(is_supported));

#[derive(Clone)]
struct ReceiveLowWaterMark;

setsockopt_impl!(ReceiveLowWaterMark, libc::SOL_SOCKET, libc::SO_RCVLOWAT, libc::c_int, SetStruct<libc::c_int>);

/// A socket that wakes nobody for few bytes, until this is dropped; then it does so for those that have arrived, too.
pub(in crate::proxy) struct RaisedLowWaterMark<'s>(BorrowedFd<'s>);

impl<'s> RaisedLowWaterMark<'s> {
    pub(super) fn new(socket: BorrowedFd<'s>) -> Option<Self> {
        (*IS_SUPPORTED && ReceiveLowWaterMark.set(&socket, &RAISED).is_ok()).then(|| RaisedLowWaterMark(socket))
    }
}

impl Drop for RaisedLowWaterMark<'_> {
    fn drop(&mut self) {
        // Lowering cannot fail where raising did not.
        let _ = ReceiveLowWaterMark.set(&self.0, &INITIAL);
    }
}

/// Returns whether the mark may be used on the Linux of this release, such as `6.18.44-fc`.
fn is_supported(release: &str) -> bool {
    let mut numbers = release.split(|other: char| !other.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)] >= FIRST_LINUX
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    #[test]
    fn needs_a_linux_that_looks_at_what_has_arrived() {
        assert!(is_supported("4.18.0-553.el8") && is_supported("5.4") && is_supported("6.18.44-fc-v669"));
        assert!(!is_supported("4.14.336-amzn2") && !is_supported("3.10.0-1160.el7") && !is_supported("unknown"));
    }

    #[tokio::test]
    async fn holds_few_bytes_back_until_it_is_dropped_and_never_an_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let mut agent = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("it listens");
        let mut socket = listener.accept().await.expect("a connection").0;
        // Without a read that finds nothing, a stream tries to read without being woken.
        assert_eq!(socket.try_read(&mut [0]).expect_err("empty").kind(), std::io::ErrorKind::WouldBlock);
        let mut buffer = [0; 8];
        let descriptor = socket.as_fd().try_clone_to_owned().expect("a descriptor");
        let Some(mark) = RaisedLowWaterMark::new(descriptor.as_fd()) else { return };
        agent.write_all(b"event").await.expect("it is open");
        assert!(timeout(Duration::from_millis(50), socket.readable()).await.is_err(), "it wakes for five bytes");
        drop(mark);
        assert_eq!(timeout(Duration::from_secs(10), socket.read(&mut buffer)).await.expect("it wakes").ok(), Some(5));

        assert_eq!(socket.try_read(&mut buffer).expect_err("empty").kind(), std::io::ErrorKind::WouldBlock);
        let _mark = RaisedLowWaterMark::new(descriptor.as_fd()).expect("it is supported");
        agent.write_all(b"end").await.expect("it is open");
        drop(agent);
        assert_eq!(timeout(Duration::from_secs(10), socket.read(&mut buffer)).await.expect("it wakes").ok(), Some(3));
    }
}
