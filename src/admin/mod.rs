//! Two planes beside the data plane. The status plane is what a kubelet and a Prometheus ask: nothing there changes anything,
//! and nothing is secret. The admin plane changes the process, and listens where this user alone gets in: on a Unix socket.

mod commands;
mod control;
mod socket;
mod probe;
mod status;

pub(crate) use commands::{AdminCommand, ProcessHandle, ReloadRequest, ReloadResult};
pub(crate) use control::{AdminState, HandOverFn, router as control};
pub(crate) use probe::{ProbeTarget, probe};
pub(crate) use socket::{AdminResponse, AdminSocket, is_alive, send_request, serve};
pub(crate) use status::router;
