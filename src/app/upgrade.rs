//! Handover to a new process without rejecting connections.
//!
//! ```text
//!   new                                         old
//!   reads and checks its configuration          serves
//!   waits at upgrade.sock
//!   POST /upgrade/sockets ────────────────────▶ sends its listening sockets there
//!   serves on them ...                          ... and so does the old one
//!   POST /upgrade/done ───────────────────────▶ closes its own; its runs continue to their end
//!   replaces the old one's admin.sock
//! ```
//! Two processes that share a listening socket share its queue of connections: closing one copy loses none of them. If
//! the new process fails, the old one continues unchanged. pingora's handover transfers the sockets.

use super::start_error::StartError;
use crate::admin::{self, AdminSocket, UPGRADE_SOCKET_NAME};
use crate::config::listen::ListenerConfig;
use crate::proxy::Listener;
use parking_lot::Mutex;
use pingora_core::server::Fds;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// pingora's limits on the number of sockets and on the total length of their names, in bytes.
const MAX_SOCKETS: usize = 32;
const MAX_NAME_BYTES: usize = 2048;

/// Timeout for each response; pingora's transfer may itself take five seconds.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Predecessor {
    run_dir: PathBuf,
    pub(super) sockets: HashMap<String, OwnedFd>,
}

impl Predecessor {
    pub(super) fn connect(run_dir: &Path) -> Result<Predecessor, StartError> {
        let sockets = receive_sockets(run_dir).map_err(|cause| StartError::Upgrade(run_dir.to_owned(), cause))?;
        Ok(Predecessor { run_dir: run_dir.to_owned(), sockets })
    }

    /// Notifies the previous process that this one accepts requests. Blocks.
    pub(super) fn confirm_takeover(self) -> Result<(), String> {
        match admin::send_request(&self.run_dir, "POST", "/upgrade/done", Some(RESPONSE_TIMEOUT)) {
            Ok(response) if response.status == 202 => Ok(()),
            Ok(response) => Err(response.body),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn receive_sockets(run_dir: &Path) -> Result<HashMap<String, OwnedFd>, String> {
    let path = run_dir.join(UPGRADE_SOCKET_NAME);
    let name = path.to_str().ok_or("run_dir is not valid UTF-8")?.to_owned();
    // Left behind by a failed upgrade.
    let _ = fs::remove_file(&path);
    let receiver = std::thread::spawn(move || {
        let mut fds = Fds::new();
        fds.get_from_sock(name.as_str()).map(|()| fds.serialize()).map_err(|error| error.to_string())
    });
    let started_at = Instant::now();
    while !path.exists() && !receiver.is_finished() && started_at.elapsed() < RESPONSE_TIMEOUT {
        std::thread::sleep(Duration::from_millis(10));
    }
    let response = admin::send_request(run_dir, "POST", "/upgrade/sockets", Some(RESPONSE_TIMEOUT))
        .map_err(|error| error.to_string())?;
    if response.status != 200 {
        return Err(response.body.trim_end().to_owned());
    }
    let (names, fds) = receiver.join().map_err(|_| format!("{UPGRADE_SOCKET_NAME} cannot be used"))??;
    #[expect(unsafe_code, reason = "the descriptors were just received over a socket, so nothing else owns them")]
    let fds = fds.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(names.into_iter().zip(fds).collect())
}

#[derive(Debug)]
pub(super) struct LocalEndpoint {
    pub(super) run_dir: PathBuf,
    pub(super) socket: AdminSocket,
    pub(super) handover_sockets: HandoverSockets,
}

impl LocalEndpoint {
    pub(super) fn bind(run_dir: &Path, planes: [(&str, &Vec<Listener>); 3]) -> Result<LocalEndpoint, StartError> {
        let bind = || {
            let socket = AdminSocket::bind(run_dir)?;
            let handover_sockets = HandoverSockets::from_planes(planes)?;
            Ok(LocalEndpoint { run_dir: run_dir.to_owned(), socket, handover_sockets })
        };
        bind().map_err(|error| StartError::RunDir(run_dir.to_owned(), error))
    }

    pub(super) fn listener(&self) -> Result<UnixListener, StartError> {
        self.socket.listener().map_err(|error| StartError::RunDir(self.run_dir.clone(), error))
    }
}

/// Copies of the listening sockets for the successor. They are closed when this process stops accepting, since clients
/// would otherwise wait in an open socket's queue.
#[derive(Clone, Debug)]
pub(super) struct HandoverSockets(Arc<Mutex<HashMap<String, OwnedFd>>>);

impl HandoverSockets {
    fn from_planes(planes: [(&str, &Vec<Listener>); 3]) -> io::Result<HandoverSockets> {
        let mut copies = HashMap::new();
        for (plane, listeners) in planes {
            let configs: Vec<_> = listeners.iter().map(|listener| listener.config.clone()).collect();
            for (name, listener) in socket_names(plane, &configs).into_iter().zip(listeners) {
                copies.insert(name, listener.clone_fd()?);
            }
        }
        Ok(HandoverSockets(Arc::new(Mutex::new(copies))))
    }

    pub(super) fn hand_over(&self, run_dir: &Path) -> Result<(), String> {
        let path = run_dir.join(UPGRADE_SOCKET_NAME);
        let name = path.to_str().ok_or("run_dir is not valid UTF-8")?;
        let sockets = self.0.lock();
        if sockets.is_empty() {
            return Err("the process is ending and has no sockets any more".to_owned());
        }
        let names: usize = sockets.keys().map(|name| name.len() + 1).sum();
        if sockets.len() > MAX_SOCKETS || names > MAX_NAME_BYTES {
            return Err(format!("{} listeners are more than can be handed over", sockets.len()));
        }
        let mut fds = Fds::new();
        sockets.iter().for_each(|(name, socket)| fds.add(name.clone(), socket.as_raw_fd()));
        fds.send_to_sock(name).map(drop).map_err(|error| error.to_string())
    }

    pub(super) fn close(&self) {
        self.0.lock().clear();
    }
}

pub(super) fn socket_names(plane: &str, listeners: &[ListenerConfig]) -> Vec<String> {
    let names = listeners.iter().enumerate().map(|(index, ListenerConfig { address, .. })| {
        let number = listeners[..index].iter().filter(|other| other.address == *address).count();
        // pingora sends the names separated by blanks.
        format!("{plane}={address}#{number}").replace(char::is_whitespace, "%20")
    });
    names.collect()
}
