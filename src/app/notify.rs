//! What a service manager is told, by the protocol of systemd: a datagram of `NAME=value` lines to the socket that
//! `NOTIFY_SOCKET` names (`sd_notify(3)`). Without that variable nobody wants to hear it.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::io;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process;
use std::time::Duration;

/// What happened to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServiceState {
    /// it serves
    Ready,
    /// it ends, at the latest after this time
    Stopping(Duration),
}

impl ServiceState {
    /// Tells it. Where that fails there is a line in the log, and the process goes on: it is here to serve.
    pub(super) fn notify(self) {
        if let Some(socket) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty())
            && let Err(error) = send(&socket, &self.to_string())
        {
            tracing::warn!(%error, socket = %socket.display(), "the service manager cannot be told");
        }
    }
}

impl fmt::Display for ServiceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The number is news where this process has taken over from the one that was started before.
            ServiceState::Ready => write!(f, "READY=1\nMAINPID={}\nSTATUS=serving", process::id()),
            // Time to end is what the configuration says, whatever the unit has for TimeoutStopSec.
            ServiceState::Stopping(within) => {
                write!(f, "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC={}", within.as_micros())
            }
        }
    }
}

fn send(socket: &OsStr, text: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        // Such a name is none of the file system (unix(7), abstract).
        #[cfg(target_os = "linux")]
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address).map(drop)
}
