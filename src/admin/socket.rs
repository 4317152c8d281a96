//! The admin socket in `run_dir`: server and client.

use crate::proxy::DrainSignal;
use axum::Router;
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the admin socket in `run_dir`.
pub(super) const SOCKET_NAME: &str = "admin.sock";

/// Name of the socket in `run_dir` over which an upgrade receives the listening sockets.
pub(crate) const UPGRADE_SOCKET_NAME: &str = "upgrade.sock";

const MAX_ANSWER_BYTES: u64 = 4 << 20;

/// The listening socket. Its file is removed on drop unless another process has replaced it.
#[derive(Debug)]
pub(crate) struct AdminSocket {
    listener: UnixListener,
    /// temporary path until `publish`
    staging_path: PathBuf,
    path: PathBuf,
    inode: u64,
}

impl AdminSocket {
    /// Binds a socket in `run_dir`. Clients find it only after [`AdminSocket::publish`].
    pub(crate) fn bind(run_dir: &Path) -> io::Result<AdminSocket> {
        let waiting = run_dir.join(format!("admin.{}.sock", std::process::id()));
        // Left behind by an earlier process with the same id.
        let _ = fs::remove_file(&waiting);
        let listener = UnixListener::bind(&waiting)?;
        fs::set_permissions(&waiting, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        let inode = fs::symlink_metadata(&waiting)?.ino();
        Ok(AdminSocket { listener, staging_path: waiting, path: run_dir.join(SOCKET_NAME), inode })
    }

    /// Renames the socket to the path that clients use.
    pub(crate) fn publish(&self) -> io::Result<()> {
        fs::rename(&self.staging_path, &self.path)
    }

    pub(crate) fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        for path in [&self.staging_path, &self.path] {
            if fs::symlink_metadata(path).is_ok_and(|file| file.ino() == self.inode) {
                // Best effort: the process is exiting.
                let _ = fs::remove_file(path);
            }
        }
    }
}

pub(crate) async fn serve(listener: UnixListener, router: Router, drain_signal: &DrainSignal) -> io::Result<()> {
    // Held to the end, so that the plane does not count as drained earlier.
    let held = drain_signal.watch_closing();
    let mut closing = held.clone();
    let closed = async move {
        // Fails only if the sender has been dropped, which also means closing.
        let _ = closing.wait_for(|closing| *closing).await;
    };
    let listener = tokio::net::UnixListener::from_std(listener)?;
    axum::serve(listener, router).with_graceful_shutdown(closed).await?;
    drop(held);
    Ok(())
}

#[derive(Debug)]
pub(crate) struct AdminResponse {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Creates `run_dir` if needed, and refuses one in which another user could replace the sockets: whoever does that
/// receives the commands of operators, and the listening sockets of an upgrade.
pub(crate) fn prepare_run_dir(run_dir: &Path) -> io::Result<()> {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    DirBuilder::new().recursive(true).mode(0o700).create(run_dir)?;
    let user = rustix::process::geteuid().as_raw();
    let is_foreign = |file: &Metadata| ![0, user].contains(&file.uid());
    let folder = fs::metadata(run_dir)?;
    let mode = folder.mode() & 0o7777;
    // A link is as good as its folder, unless another user could direct it elsewhere.
    if let Some(foreign) = [&fs::symlink_metadata(run_dir)?, &folder].into_iter().find(|file| is_foreign(file)) {
        return Err(io::Error::other(format!(
            "it belongs to the user with the id {}, who could replace the sockets in it; name a folder of this user",
            foreign.uid()
        )));
    }
    // In a folder with the sticky bit, as in the container image, only the owner of a file can replace it.
    if mode & WRITABLE_BY_OTHERS != 0 && mode & STICKY == 0 {
        return Err(io::Error::other(format!(
            "other users could replace the sockets in it (mode {mode:04o}); run `chmod go-w` on it, or name another folder"
        )));
    }
    for name in [SOCKET_NAME, UPGRADE_SOCKET_NAME] {
        if fs::symlink_metadata(run_dir.join(name)).is_ok_and(|file| is_foreign(&file)) {
            return Err(io::Error::other(format!(
                "{name} in it belongs to another user; remove it, or name another folder"
            )));
        }
    }
    Ok(())
}

/// Returns whether a process responds on the socket in `run_dir`.
#[must_use]
pub(crate) fn is_alive(run_dir: &Path) -> bool {
    send_request(run_dir, "GET", "/livez", Some(Duration::from_secs(5))).is_ok_and(|answer| answer.status == 200)
}

/// Sends a request to the process in `run_dir`. `timeout` applies to each read and write. Blocks.
pub(crate) fn send_request(
    run_dir: &Path,
    method: &str,
    path: &str,
    timeout: Option<Duration>,
) -> io::Result<AdminResponse> {
    let stream = UnixStream::connect(run_dir.join(SOCKET_NAME))?;
    stream.set_read_timeout(timeout)?;
    stream.set_write_timeout(timeout)?;
    exchange(stream, method, path)
}

pub(super) fn exchange(mut stream: impl Read + Write, method: &str, path: &str) -> io::Result<AdminResponse> {
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: diglot\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")?;
    stream.flush()?;
    let mut answer = Vec::new();
    match stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer) {
        // The peer closed TLS without close_notify, but the response is complete.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof && !answer.is_empty() => {}
        read => drop(read?),
    }
    let answer = String::from_utf8_lossy(&answer);
    let (head, text) = answer.split_once("\r\n\r\n").ok_or(ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(ErrorKind::InvalidData)?;
    Ok(AdminResponse { status, body: text.to_owned() })
}
