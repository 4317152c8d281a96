//! Notifies systemd: sends `NAME=value` lines to the socket in `NOTIFY_SOCKET`, if it is set (`sd_notify(3)`).

use crate::telemetry::internal_event;
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServiceState {
    Ready,
    /// the process will exit within this time
    Stopping(Duration),
}

impl ServiceState {
    pub(super) fn notify(self) {
        if let Some(socket) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty())
            && let Err(error) = send(&socket, &self.to_string())
        {
            internal_event::ServiceManagerUnreachable { error, socket: &socket }.emit();
        }
    }
}

impl fmt::Display for ServiceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // After a takeover, the service manager does not know this process's id yet.
            ServiceState::Ready => write!(f, "READY=1\nMAINPID={}\nSTATUS=serving", process::id()),
            // The configured time applies instead of the unit's TimeoutStopSec.
            ServiceState::Stopping(within) => {
                write!(f, "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC={}", within.as_micros())
            }
        }
    }
}

fn send(socket: &OsStr, text: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        // An abstract name, which is not in the file system (unix(7)).
        #[cfg(target_os = "linux")]
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address).map(drop)
}
