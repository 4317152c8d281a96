//! Listening sockets, new or inherited, before connections are accepted.

use super::listener_tls::ListenerTls;
use super::transport::RawStream;
use crate::config::listen::{ListenAddress, ListenerConfig};
use crate::net::peer_addr::PeerAddr;
use socket2::{Domain, SockAddr, Socket, Type};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::net::{TcpListener, UnixListener};

const BACKLOG: i32 = 4096;

#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
    pub(crate) config: ListenerConfig,
    pub(super) tls: Option<ListenerTls>,
    /// present for a Unix socket
    pub(crate) file: Option<Arc<SocketFile>>,
}

#[derive(Debug)]
pub(crate) enum BindError {
    Socket(io::Error),
    /// the certificate is unusable
    Tls(String),
}

impl From<io::Error> for BindError {
    fn from(error: io::Error) -> Self {
        BindError::Socket(error)
    }
}

impl Listener {
    /// Binds the address or uses the inherited socket. Stale socket files are replaced.
    pub(crate) fn bind(listen: &ListenerConfig, inherited: Option<OwnedFd>) -> Result<Self, BindError> {
        let tls = listen.tls.as_ref().map(ListenerTls::open).transpose().map_err(BindError::Tls)?;
        let (socket, file) = match inherited {
            Some(socket) => adopt_socket(listen, socket.into())?,
            None => match &listen.address {
                ListenAddress::Tcp(address) => (bind_tcp(*address)?, None),
                ListenAddress::Unix { path, mode } => bind_unix(path, *mode)?,
            },
        };
        Ok(Listener { socket, config: listen.clone(), tls, file: file.map(Arc::new) })
    }

    /// Returns the configured address, which identifies the listener across processes.
    pub(crate) fn key(&self) -> String {
        self.config.address.to_string()
    }

    /// Duplicates the socket; both copies share one accept queue.
    pub(crate) fn clone_fd(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone().map(OwnedFd::from)
    }

    pub(crate) fn bound_address(&self) -> Option<SocketAddr> {
        self.config.tcp_address().map(|configured| {
            let bound = self.socket.local_addr().ok().and_then(|address| address.as_socket());
            bound.unwrap_or(configured)
        })
    }

    pub(crate) fn display_address(&self) -> String {
        self.bound_address().map_or_else(|| self.key(), |address| address.to_string())
    }

    pub(super) fn into_listening(self) -> io::Result<(ListeningSocket, ListenerConfig, Option<ListenerTls>)> {
        let Listener { socket, config, tls, file } = self;
        let opened = match file {
            None => ListeningSocket::Tcp(TcpListener::from_std(socket.into())?),
            Some(file) => ListeningSocket::Unix(UnixListener::from_std(OwnedFd::from(socket).into())?, file),
        };
        Ok((opened, config, tls))
    }
}

#[derive(Debug)]
pub(super) enum ListeningSocket {
    Tcp(TcpListener),
    /// the socket file is removed with the listener
    Unix(UnixListener, #[expect(dead_code, reason = "kept to be dropped")] Arc<SocketFile>),
}

impl ListeningSocket {
    pub(super) async fn accept(&self) -> io::Result<(RawStream, PeerAddr)> {
        match self {
            ListeningSocket::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                // Events are small and should be sent immediately.
                let _ = stream.set_nodelay(true);
                Ok((RawStream::Tcp(stream), PeerAddr::Tcp(address)))
            }
            ListeningSocket::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok((RawStream::Unix(stream), PeerAddr::Unix))
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: FileIdentity,
    owned: AtomicBool,
}

#[derive(Debug, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    inode: u64,
}

impl SocketFile {
    fn new(path: &Path) -> io::Result<Self> {
        Ok(SocketFile { path: path.to_owned(), identity: file_identity(path)?, owned: AtomicBool::new(true) })
    }

    /// Sets whether this process removes the file; only the last process to use it should.
    pub(crate) fn set_owned(&self, owned: bool) {
        self.owned.store(owned, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self) {
        // Another process may have put its own file there.
        let is_ours = file_identity(&self.path).is_ok_and(|identity| identity == self.identity);
        if is_ours && self.owned.swap(false, Ordering::Relaxed) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        self.remove();
    }
}

fn file_identity(path: &Path) -> io::Result<FileIdentity> {
    fs::symlink_metadata(path).map(|data| FileIdentity { device: data.dev(), inode: data.ino() })
}

fn bind_tcp(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Prepares a socket inherited from another process, which owns the file until the handover is complete.
fn adopt_socket(listen: &ListenerConfig, socket: Socket) -> io::Result<(Socket, Option<SocketFile>)> {
    socket.set_nonblocking(true)?;
    let ListenAddress::Unix { path, .. } = &listen.address else { return Ok((socket, None)) };
    let file = SocketFile::new(path)?;
    file.set_owned(false);
    Ok((socket, Some(file)))
}

fn bind_unix(path: &Path, mode: u32) -> io::Result<(Socket, Option<SocketFile>)> {
    remove_stale_socket(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    let file = SocketFile::new(path)?;
    // Clients cannot connect before the socket listens, so none can connect with other permissions.
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    socket.listen(BACKLOG)?;
    Ok((socket, Some(file)))
}

fn remove_stale_socket(path: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata?,
    };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file exists and is not a socket"));
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    probe.set_nonblocking(true)?;
    match probe.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        // The other process accepts connections, or its queue is full.
        _ => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens on it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::inspect::CaptureMode;
    use tokio::net::{TcpStream, UnixStream};

    fn unix_listener(test: &str) -> (PathBuf, ListenerConfig) {
        let path = std::env::temp_dir().join(format!("diglot-listener-{}-{test}.sock", std::process::id()));
        let address = ListenAddress::Unix { path: path.clone(), mode: 0o600 };
        (path, ListenerConfig { address, tls: None, proxy_protocol: false, inspect: CaptureMode::Off })
    }

    #[tokio::test]
    async fn handed_over_socket_keeps_accepting_and_keeps_its_file() {
        let (path, listen) = unix_listener("handed-over");
        let old = Listener::bind(&listen, None).expect("a socket");
        let new = Listener::bind(&listen, old.clone_fd().ok()).expect("the same socket");
        assert_eq!(old.key(), new.key());
        old.file.as_ref().expect("a file").set_owned(false);
        new.file.as_ref().expect("the same file").set_owned(true);
        drop(old);
        let (new, ..) = new.into_listening().expect("a listener");
        let (client, accepted) = tokio::join!(UnixStream::connect(&path), new.accept());
        assert_eq!(accepted.expect("a connection").1, PeerAddr::Unix);
        client.expect("a client connects");
        drop(new);
        assert!(!path.exists());

        let address = ListenAddress::Tcp("127.0.0.1:0".parse().expect("an address"));
        let listen = ListenerConfig { address, tls: None, proxy_protocol: false, inspect: CaptureMode::Off };
        let old = Listener::bind(&listen, None).expect("a socket");
        let new = Listener::bind(&listen, old.clone_fd().ok()).expect("the same socket");
        let address = old.bound_address().expect("an address");
        assert_eq!((new.bound_address(), new.key().as_str()), (Some(address), "127.0.0.1:0"));
        drop(old);
        let (new, ..) = new.into_listening().expect("a listener");
        let (client, accepted) = tokio::join!(TcpStream::connect(address), new.accept());
        let client = client.expect("a client connects").local_addr().expect("an address");
        assert_eq!(accepted.expect("a connection").1, PeerAddr::Tcp(client));
    }

    #[tokio::test]
    async fn leaves_the_file_of_another_socket_alone() {
        let (path, listen) = unix_listener("another");
        let first = Listener::bind(&listen, None).expect("a socket");
        fs::remove_file(&path).expect("a socket");
        let second = Listener::bind(&listen, None).expect("a socket");
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }
}
