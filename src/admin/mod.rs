//! Two planes beside the data plane. The status plane is what a kubelet and a Prometheus ask: nothing there changes anything,
//! and nothing is secret. The admin plane changes the process, and listens where this user alone gets in: on a Unix socket.

mod commands;
mod control;
mod probe;
mod socket;
mod status;

pub use commands::{AdminCommand, ProcessHandle, ReloadRequest, ReloadResult};
pub use control::{AdminState, HandOverFn, router as control};
pub use probe::{ProbeTarget, probe};
pub use socket::{AdminResponse, AdminSocket, is_alive, send_request, serve};
pub use status::router;
