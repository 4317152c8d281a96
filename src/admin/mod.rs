//! The status and admin planes. The status plane is for kubelet and Prometheus; it is read-only and exposes no secrets.
//! The admin plane changes the process, over a Unix socket that only the gateway's own user may open.

mod commands;
mod inspect;
mod playground;
mod config_check;
mod page;
mod inspector;
mod control;
mod socket;
mod line_stream;
mod probe;
mod status;

pub(crate) use commands::{ProcessHandle, ReloadRequest, ReloadResult, ShutdownCommand};
pub(crate) use config_check::{ConfigCheckState, check_config};
pub(crate) use control::{AdminState, router as control};
pub(crate) use inspect::InspectState;
pub(crate) use inspector::{InspectorToken, router as inspector};
pub(crate) use line_stream::{LineStream, open_stream, request};
pub(crate) use playground::PlaygroundState;
pub(crate) use probe::{ProbeTarget, probe};
pub(crate) use socket::{
    AdminResponse, AdminSocket, UPGRADE_SOCKET_NAME, is_alive, prepare_run_dir, send_request, serve,
};
pub(crate) use status::{is_draining, router};
