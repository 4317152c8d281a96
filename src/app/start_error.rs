//! Errors that prevent the process from starting.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("cannot listen on {address} (listeners.{plane}): {error}; {}", bind_hint(.error))]
    Bind { plane: &'static str, address: String, error: io::Error },
    #[error("{folder} (run_dir) cannot be used: {1}", folder = .0.display())]
    RunDir(PathBuf, io::Error),
    #[error("another gateway has {} (run_dir) in use; `diglot serve --upgrade` takes over from it", .0.display())]
    Running(PathBuf),
    #[error(
        "the gateway in {} (run_dir) is shutting down, and serves until its `drain_grace` and its open runs have ended; start this one after that (`diglot drain --wait` waits for the runs), or now: `diglot serve --upgrade` takes over its sockets", .0.display()
    )]
    ShuttingDown(PathBuf),
    #[error("the gateway in {folder} (run_dir) did not hand over and keeps serving: {1}", folder = .0.display())]
    Upgrade(PathBuf, String),
    #[error("{0}")]
    Unusable(String),
    #[error("{0}")]
    Internal(String),
}

fn bind_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "create the folder, or configure another address",
        io::ErrorKind::PermissionDenied => "grant this user access, or configure another address",
        _ => "free it or name another address",
    }
}
